// conv1d: a 2-D convolution of images of height 1.
#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/functions/functions.h"
#include "engine/ops/common.h"
#include "engine/ops/convolution/convolution_operators.h"
#include "engine/ops/shape/shape_operators.h"

namespace gemel::inline ops {
namespace {

void check_options(const std::string& op, const Convolution1d& c) {
  struct Option {
    const char* name;
    std::int64_t value, least;
  };
  for (const Option& o : {Option{"stride", c.stride, 1}, {"padding", c.padding, 0}, {"dilation", c.dilation, 1}, {"groups", c.groups, 1}})
    if (o.value < o.least) throw ShapeError(fmt::format("{}: {} is {}; accepted: at least {}", op, o.name, o.value, o.least));
}

void check_channels(const std::string& op, const Shape& x, const Shape& w, std::int64_t groups) {
  if (const std::int64_t takes = w[1] * groups; x[2] != takes)
    throw ShapeError(fmt::format("{}: x {} has {} channels, its last axis, w {} takes {}{}; accepted: x [N, T, {}]{}", op, to_string(x), x[2], to_string(w),
                                 takes, groups > 1 ? fmt::format(" in {} groups", groups) : "", takes,
                                 x[1] == takes ? ", which transpose(x, {0, 2, 1}) makes of [N, C, T]" : ""));
  if (w[2] % groups)
    throw ShapeError(fmt::format("{}: {} filters of w {} are not divisible by {} groups; accepted: a divisor", op, w[2], to_string(w), groups));
}

/// All that conv2d would refuse, in the caller's words.
void check(const Value& x, const Value& w, const Convolution1d& c) {
  const std::string& scope = *x.session().scope();
  const std::string op = scope.empty() ? "conv1d" : scope + ": conv1d";
  check_float32(op.c_str(), "x", x.spec());
  check_same_dtype(op.c_str(), x.spec(), w.spec());
  check_rank(op.c_str(), "x", x.spec(), 3);
  check_rank(op.c_str(), "w", w.spec(), 3);
  check_options(op, c);
  check_channels(op, x.shape(), w.shape(), c.groups);
  const std::int64_t taps = w.shape()[0], span = taps > 0 ? (taps - 1) * c.dilation + 1 : 0, padded = x.shape()[1] + 2 * c.padding;
  if (span == 0 || span > padded)
    throw ShapeError(fmt::format("{}: the window of w {} spans {}, the padded x {} has {}; accepted: a window of 1 up to that", op, to_string(w.shape()), span,
                                 to_string(x.shape()), padded));
}

}  // namespace

Value conv1d(Value x, Value w, const Convolution1d& c) {
  check(x, w, c);
  const Shape in = x.shape(), filters = w.shape();
  const Convolution flat{.stride = {1, c.stride}, .padding = {0, c.padding}, .dilation = {1, c.dilation}, .groups = c.groups};
  const Value y = conv2d(reshape(std::move(x), Shape{in[0], 1, in[1], in[2]}), reshape(std::move(w), Shape{1, filters[0], filters[1], filters[2]}), flat);
  return reshape(y, Shape{in[0], y.shape()[2], filters[2]});
}

const FunctionDef& conv1d_def() {
  static const FunctionDef def{
      .name = "conv1d",
      .doc = "Cross-correlation along time: x [N, T, C], w [R, C / groups, K].",
      .inputs = {"x", "w"},
      .attributes = {{"stride", Type::integer, "steps from window to window"},
                     {"padding", Type::integer, "zeros before and behind each sequence"},
                     {"dilation", Type::integer, "steps between the taps of a window"},
                     {"groups", Type::integer, "parts of the channels that do not mix"}},
      .definition =
          [](const Values& in, const Attributes& a) {
            return conv1d(in[0], in[1],
                          {.stride = a.integer("stride"), .padding = a.integer("padding"), .dilation = a.integer("dilation"), .groups = a.integer("groups")});
          },
      .samples =
          [] {
            const auto with = [](std::int64_t stride, std::int64_t padding, std::int64_t dilation, std::int64_t groups) {
              return Attributes{{"stride", stride}, {"padding", padding}, {"dilation", dilation}, {"groups", groups}};
            };
            return std::vector<Sample>{{{f32({2, 9, 4}), f32({3, 4, 5})}, with(1, 0, 1, 1)}, {{f32({1, 8, 4}), f32({3, 2, 6})}, with(2, 2, 2, 2)}};
          },
  };
  return def;
}

}  // namespace gemel::inline ops
