// Max pooling. The winning tap of each window is an output too, so that the gradient looks at nothing else:
//   y[n,p,q,c] = x at the window's tap[n,p,q,c]     dx = sum of the dy whose tap points here     ddy = g at the tap
// Legend: x [N, H, W, C], y and tap [N, P, Q, C]; a tap is row * S + column in its window.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"
#include "engine/ops/pooling/pooling_common.h"

namespace gemel::inline ops {
namespace {

using pooling::Form;
using pooling::Geometry;
using pooling::geometry_of;

Attributes attributes_of(const Window& v) {
  return {{"kernel", pooling::list_of(v.kernel)},
          {"stride", pooling::list_of(v.stride)},
          {"padding", pooling::list_of(v.padding)},
          {"ceil_mode", v.ceil_mode},
          {"dilation", pooling::list_of(v.dilation)}};
}
Attributes attributes_of(const Window& v, const Shape& shape) {
  Attributes a = attributes_of(v);
  a.set("shape", shape);
  return a;
}
std::vector<AttributeDef> attribute_defs() {
  auto out = pooling::window_attributes();
  out.push_back({"dilation", Type::integers, "steps between the taps of a window along H and W"});
  return out;
}
std::vector<AttributeDef> attribute_defs_with_shape() {
  auto out = attribute_defs();
  out.push_back({"shape", Type::shape, "of the images"});
  return out;
}

Shape pooled(const Geometry& g) { return {g.n, g.p, g.q, g.c}; }

void check_taps(const char* op, const Spec& tap, const Shape& shape) {
  if (tap != Spec{shape, DType::int32}) throw ShapeError(fmt::format("{}: tap is {}; accepted: int32 {}", op, to_string(tap), to_string(shape)));
}

Value scattered(Value dy, Value tap, const Shape& x, const Window& v) {
  return apply(max_pool2d_gradient_def(), list(std::move(dy), std::move(tap)), attributes_of(v, x))[0];
}
Value picked(Value x, Value tap, const Window& v) { return apply(max_pool2d_pick_def(), list(std::move(x), std::move(tap)), attributes_of(v))[0]; }
Window window_of(const Backward& b) { return geometry_of(Shape{0, 0, 0, 0}, b.attributes()).window; }

// ---- max_pool2d
Specs forward_infer(const Specs& in, const Attributes& a) {
  check_float32("max_pool2d", "x", in[0]);
  const Shape y = pooled(pooling::checked_geometry("max_pool2d", in[0], a));
  return {{y, in[0].dtype}, {y, DType::int32}};
}

void forward_reference(const HostCall& call) {
  const Geometry g = geometry_of(call.in_shape(0), call.attributes());
  const auto x = call.real(0);
  const auto y = call.out_real(0);
  const auto tap_out = call.out_integer(1);
  std::fill(y.begin(), y.end(), -std::numeric_limits<double>::infinity());
  std::fill(tap_out.begin(), tap_out.end(), -1);
  pooling::each_tap(g, [&](std::int64_t tap, std::int64_t from, std::int64_t to) {
    for (std::int64_t c = 0; c < g.c; ++c) {
      const double v = x[at(from * g.c + c)];
      if (!(v > y[at(to * g.c + c)]) && !std::isnan(v) && tap_out[at(to * g.c + c)] >= 0) continue;  // the first one, if all are -infinity
      y[at(to * g.c + c)] = v;
      tap_out[at(to * g.c + c)] = tap;
    }
  });
}

template <Form form>
void forward_launch(Launch& l) {
  const Geometry g = geometry_of(l.in_shape(0), l.attributes());
  pooling::run(l, {"max_pool", form, l.out_shape(0), &g}, pooling::arguments_of({l.in(0), l.out(0), l.out(1)}, g));
}

// ---- max_pool2d_gradient
Specs gradient_infer(const Specs& in, const Attributes& a) {
  const char* op = "max_pool2d_gradient";
  check_float32(op, "dy", in[0]);
  const Spec x{a.shape("shape"), in[0].dtype};
  const Shape y = pooled(pooling::checked_geometry(op, x, a));
  check_shape(op, "dy", in[0], y);
  check_taps(op, in[1], y);
  return {x};
}

void gradient_reference(const HostCall& call) {
  const Geometry g = geometry_of(call.out_shape(0), call.attributes());
  const auto dy = call.real(0);
  const auto taps = call.integer(1);
  const auto dx = call.out_real(0);
  std::fill(dx.begin(), dx.end(), 0.0);
  pooling::each_tap(g, [&](std::int64_t tap, std::int64_t to, std::int64_t from) {
    for (std::int64_t c = 0; c < g.c; ++c)
      if (taps[at(from * g.c + c)] == tap) dx[at(to * g.c + c)] += dy[at(from * g.c + c)];
  });
}

template <Form form>
void gradient_launch(Launch& l) {
  const Geometry g = geometry_of(l.out_shape(0), l.attributes());
  pooling::run(l, {"max_pool_gradient", form, l.out_shape(0), &g}, pooling::arguments_of({l.in(0), l.in(1), l.out(0)}, g));
}

// ---- max_pool2d_pick
Specs pick_infer(const Specs& in, const Attributes& a) {
  check_float32("max_pool2d_pick", "x", in[0]);
  const Shape y = pooled(pooling::checked_geometry("max_pool2d_pick", in[0], a));
  check_taps("max_pool2d_pick", in[1], y);
  return {{y, in[0].dtype}};
}

void pick_reference(const HostCall& call) {
  const Geometry g = geometry_of(call.in_shape(0), call.attributes());
  const auto x = call.real(0);
  const auto taps = call.integer(1);
  const auto y = call.out_real(0);
  std::fill(y.begin(), y.end(), 0.0);
  pooling::each_tap(g, [&](std::int64_t tap, std::int64_t from, std::int64_t to) {
    for (std::int64_t c = 0; c < g.c; ++c)
      if (taps[at(to * g.c + c)] == tap) y[at(to * g.c + c)] = x[at(from * g.c + c)];
  });
}

template <Form form>
void pick_launch(Launch& l) {
  const Geometry g = geometry_of(l.in_shape(0), l.attributes());
  pooling::run(l, {"max_pool_pick", form, l.out_shape(0), &g}, pooling::arguments_of({l.in(0), l.in(1), l.out(0)}, g));
}

// ---- samples
struct Case {
  Spec x;
  Window v;
};
std::vector<Case> cases() {
  return {{f32({2, 6, 6, 3}), {}},
          {f32({1, 7, 9, 16}), {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
          {f32({1, 8, 7, 17}), {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 0}}},
          {f32({1, 6, 8, 2}), {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true}},
          {f32({1, 5, 5, 32}), {.kernel = {2, 2}, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true}},
          {f32({1, 9, 8, 3}), {.kernel = {3, 2}, .stride = {1, 1}, .padding = {1, 1}, .dilation = {2, 3}}},
          {f32({3, 1, 1, 5}), {.kernel = {1, 1}, .stride = {1, 1}}},
          {f32({0, 4, 4, 2}), {}},
          {f32({2, 4, 4, 0}), {}}};
}

/// Any tap of the window is a right input of the gradients, also one that lies in the padding.
template <bool to_x>
std::vector<Sample> tap_samples() {
  std::vector<Sample> out;
  for (const auto& [x, v] : cases()) {
    const Shape y = pooled(geometry_of(x.shape, attributes_of(v)));
    out.push_back({{to_x ? Spec{y} : x, {y, DType::int32}},
                   to_x ? attributes_of(v, x.shape) : attributes_of(v),
                   {Fill{}, integers(0, static_cast<int>(v.kernel[0] * v.kernel[1]))}});
  }
  return out;
}

std::vector<Rejected> forward_rejected() {
  const Spec x = f32({1, 4, 4, 3});
  return {{{i32({1, 4, 4, 3})}, attributes_of({}), "max_pool2d: x is int32 [1, 4, 4, 3]; accepted: float32"},
          {{{Shape{1, 4, 4, 3}, DType::float16}}, attributes_of({}), "max_pool2d: x is float16 [1, 4, 4, 3]; accepted: float32"},
          {{f32({4, 4, 3})}, attributes_of({}), "max_pool2d: x is [4, 4, 3], of rank 3; accepted: rank 4"},
          {{x}, attributes_of({.kernel = {0, 2}}), "max_pool2d: kernel is [0, 2]; accepted: two numbers of at least 1"},
          {{x}, attributes_of({.stride = {2, 0}}), "max_pool2d: stride is [2, 0]; accepted: two numbers of at least 1"},
          {{x}, attributes_of({.padding = {0, -1}}), "max_pool2d: padding is [0, -1]; accepted: two numbers of at least 0"},
          {{x}, attributes_of({.padding = {2, 1}}), "max_pool2d: padding is [2, 1] for a kernel of 2 x 2; accepted: at most half the kernel"},
          {{x}, attributes_of({.kernel = {5, 2}}), "max_pool2d: the window spans 5 x 2, the padded x [1, 4, 4, 3] has 4 x 4; accepted: a window up to that"}};
}

}  // namespace

const OpDef& max_pool2d_def() {
  static const OpDef def{
      .name = "max_pool2d",
      .doc = "Maximum of each window, the first among equals, NaN where one is; tap tells where in the window it is.",
      .inputs = {"x"},
      .outputs = {"y", "tap"},
      .attributes = attribute_defs(),
      .infer = forward_infer,
      .cost =
          [](const Problem& p) {
            return Cost{p.outputs[0].elements() * geometry_of(p.inputs[0].shape, p.attributes).taps(), per_element<0>(p).bytes};
          },
      .reference = forward_reference,
      .gradient = [](const Backward& b) -> Values { return {scattered(b.gradient(0), b.output(1), b.input_shape(0), window_of(b))}; },
      .gradient_reads = {outputs(1)},
      .variants = pooling::variants(forward_launch<Form::vectors>, forward_launch<Form::one_channel>, forward_launch<Form::pixels>),
      .samples =
          [] {
            std::vector<Sample> out;
            for (const auto& [x, v] : cases()) out.push_back({{x}, attributes_of(v), {distinct()}});
            return out;
          },
      .rejected = forward_rejected,
  };
  return def;
}

const OpDef& max_pool2d_gradient_def() {
  static const OpDef def{
      .name = "max_pool2d_gradient",
      .doc = "Gradient of max_pool2d: each dy goes to the tap that won its window.",
      .inputs = {"dy", "tap"},
      .outputs = {"dx"},
      .attributes = attribute_defs_with_shape(),
      .infer = gradient_infer,
      .cost = per_element<1>,
      .reference = gradient_reference,
      .gradient = [](const Backward& b) -> Values {
        return {picked(b.gradient(0), b.input(1), window_of(b)), {}};
      },
      .gradient_reads = {inputs(1), nothing},
      .variants = pooling::variants(gradient_launch<Form::vectors>, gradient_launch<Form::one_channel>, gradient_launch<Form::pixels>),
      .samples = tap_samples<true>,
      .rejected =
          [] {
            return std::vector<Rejected>{
                {{f32({1, 2, 2, 3}), f32({1, 2, 2, 3})},
                 attributes_of({}, {1, 4, 4, 3}),
                 "max_pool2d_gradient: tap is float32 [1, 2, 2, 3]; accepted: int32 [1, 2, 2, 3]"},
                {{f32({1, 3, 2, 3}), i32({1, 2, 2, 3})}, attributes_of({}, {1, 4, 4, 3}), "max_pool2d_gradient: dy is [1, 3, 2, 3]; accepted: [1, 2, 2, 3]"}};
          },
  };
  return def;
}

const OpDef& max_pool2d_pick_def() {
  static const OpDef def{
      .name = "max_pool2d_pick",
      .doc = "The element of each window at a given tap, 0 where that lies in the padding.",
      .inputs = {"x", "tap"},
      .attributes = attribute_defs(),
      .infer = pick_infer,
      .cost = per_element<1>,
      .reference = pick_reference,
      .gradient = [](const Backward& b) -> Values {
        return {scattered(b.gradient(0), b.input(1), b.input_shape(0), window_of(b)), {}};
      },
      .gradient_reads = {inputs(1), nothing},
      .variants = pooling::variants(pick_launch<Form::vectors>, pick_launch<Form::one_channel>, pick_launch<Form::pixels>),
      .samples = tap_samples<false>,
      .rejected =
          [] {
            return std::vector<Rejected>{
                {{f32({1, 4, 4, 3}), i32({1, 2, 2, 1})}, attributes_of({}), "max_pool2d_pick: tap is int32 [1, 2, 2, 1]; accepted: int32 [1, 2, 2, 3]"}};
          },
  };
  return def;
}

Value max_pool2d(Value x, const Window& window) { return apply(max_pool2d_def(), list(std::move(x)), attributes_of(window))[0]; }

}  // namespace gemel::inline ops
