#include "engine/ops/loss/ctc_composed.h"

#include <cmath>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/gradients/composed_gradient.h"
#include "engine/gradients/row_gradient.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

constexpr double kNever = -1e30;      // in place of -infinity, as that less itself is no number
constexpr double kImpossible = 1e29;  // a loss above it stands for infinity: there is no alignment

/// log sum exp of terms of one shape.
Value log_sum(const Values& terms) {
  Value top = terms[0], total;
  for (std::size_t i = 1; i < terms.size(); ++i) top = maximum(top, terms[i]);
  top = top.detached();  // what it stands for cancels
  for (const Value& term : terms) accumulate(total, exp(term - top));
  return top + log(total);
}

/// @param in  as those of ctc_loss
Value losses_of(const Values& in, std::int64_t blank) {
  const Value &log_probs = in[0], &targets = in[1], &input_lengths = in[2], &target_lengths = in[3];
  Session& session = log_probs.session();
  const std::int64_t N = log_probs.shape()[0], T = log_probs.shape()[1], C = log_probs.shape()[2], L = targets.shape()[1], S = 2 * L + 1;
  const auto number = [&](DType dtype, const Shape& shape, double value) { return full(session, {shape, dtype}, value); };
  const DType whole = targets.dtype();
  // What pads the targets may be anything; no path goes through it.
  const Value labels = minimum(maximum(targets, number(whole, {1}, 0)), number(whole, {1}, static_cast<double>(C - 1)));
  const Value blanks = number(whole, {N, L, 1}, static_cast<double>(blank));
  const Value pairs = reshape(concatenate({blanks, reshape(labels, Shape{N, L, 1})}, 2), Shape{N, 2 * L});
  const Value states = concatenate({pairs, number(whole, {N, 1}, static_cast<double>(blank))}, 1);
  const Value scores = matmul(maximum(log_probs, number(DType::float32, {1}, kNever)), one_hot(states, C), Transpose::no, Transpose::yes);
  const Values frames = split(scores, std::vector<std::int64_t>(at(T), 1), 1);
  const auto shifted = [&](const Value& x, std::int64_t by) { return pad(x, {0, by}, {0, 0}, kNever); };
  Value a = pad(number(DType::float32, {N, 1}, 0), {0, 0}, {0, S - 1}, kNever), skips;
  if (L > 0) skips = not_equal(slice(states, {0, 2}, {N, S}), slice(states, {0, 0}, {N, S - 2}));
  for (std::int64_t t = 0; t < T; ++t) {
    Values arriving{a};
    if (L > 0) {
      arriving.push_back(shifted(slice(a, {0, 0}, {N, S - 1}), 1));
      arriving.push_back(shifted(where(skips, slice(a, {0, 0}, {N, S - 2}), number(DType::float32, {1}, kNever)), 2));
    }
    const Value next = log_sum(arriving) + reshape(frames[at(t)], Shape{N, S});
    a = where(reshape(greater(input_lengths, number(whole, {1}, static_cast<double>(t))), Shape{N, 1}), next, a);
  }
  const Value ends = one_hot(target_lengths + target_lengths, S + 1);  // the last blank, and one before it the last label
  const Value is_end = greater(slice(ends, {0, 0}, {N, S}) + slice(ends, {0, 1}, {N, S + 1}), number(DType::float32, {1}, 0));
  const Value last = where(is_end, a, number(DType::float32, {1}, kNever)), top = max(last, {1}, Keep::yes).detached();
  return negate(reshape(top, Shape{N}) + log(sum(exp(last - top), {1})));
}

/// Where there is an alignment.
Value is_possible(const Value& losses) { return less(losses.detached(), full(losses.session(), f32({1}), kImpossible)); }

}  // namespace

Values composed_ctc_loss(const Values& in, const Attributes& a) {
  const Value losses = losses_of(in, a.integer("blank"));
  return {where(is_possible(losses), losses, full(losses.session(), f32({1}), a.boolean("zero_infinity") ? 0 : INFINITY))};
}

Values composed_ctc_loss_backward(const Values& in, const Attributes& a) {
  const bool has_history = in[0].wants_gradient() || in[1].wants_gradient();
  const GradientMode recorded(in[0].session(), GradientMode::Mode::on);
  const Value dy = in[0], x = in[1].wants_gradient() ? in[1] : leaf(in[1]);
  const Value losses = losses_of({x, in[2], in[3], in[4]}, a.integer("blank")), none = full(dy.session(), dy.spec(), 0);
  Value dx = gradient({losses}, {x}, {where(is_possible(losses), dy, none)}, has_history ? Tape::extend : Tape::release)[0];
  return {std::move(dx)};
}

}  // namespace gemel::inline ops
