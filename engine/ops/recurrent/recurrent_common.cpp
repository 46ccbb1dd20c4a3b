#include "engine/ops/recurrent/recurrent_common.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/ops/ops.h"

namespace gemel::recurrent {

Sizes sizes_of(const Specs& in, std::size_t weight) {
  const Shape &x = in[0].shape, &w = in[weight].shape;
  return {x[0], x[1], w[0], w[1] / w[0]};
}

Sizes checked_sizes(const OpDef& op, const Specs& in, std::size_t weight, std::int64_t gates) {
  check_rank(op.name.c_str(), op.inputs[0].c_str(), in[0], 3);
  if (in[0].shape[1] == 0) throw ShapeError(fmt::format("{}: {} is {}; accepted: at least one step", op.name, op.inputs[0], to_string(in[0].shape)));
  const Spec& w = in[weight];
  check_rank(op.name.c_str(), op.inputs[weight].c_str(), w, 2);
  if (w.shape[0] == 0 || w.shape[1] != gates * w.shape[0])
    throw ShapeError(fmt::format("{}: {} is {}; accepted: [H, {} H]", op.name, op.inputs[weight], to_string(w.shape), gates));
  return sizes_of(in, weight);
}

void check_inputs(const OpDef& op, const Specs& in, std::initializer_list<Shape> shapes) {
  std::size_t i = 0;
  for (const Shape& shape : shapes) {
    check_float32(op.name.c_str(), op.inputs[i].c_str(), in[i]);
    check_shape(op.name.c_str(), op.inputs[i].c_str(), in[i], shape);
    ++i;
  }
  check_type(op.name.c_str(), op.inputs[i].c_str(), in[i], {DType::int64}, "int64");
  check_shape(op.name.c_str(), op.inputs[i].c_str(), in[i], Shape{in[0].shape[0]});
}

const AttributeDef& reverse_attribute() {
  static const AttributeDef def{"reverse", Type::boolean, "each sequence is read from its end to its first step"};
  return def;
}

Cost cost_of(const Problem& p, std::size_t weight, std::int64_t flops) {
  const Sizes s = sizes_of({p.inputs.begin(), p.inputs.end()}, weight);
  Cost cost{s.sequences * s.steps * s.hidden * (2 * s.width() + flops), 0};
  for (const Spec& spec : p.inputs) cost.bytes += spec.bytes();
  for (const Spec& spec : p.outputs) cost.bytes += spec.bytes();
  return cost;
}

std::vector<Sample> samples_of(Sample (*make)(std::int64_t, std::int64_t, std::int64_t, bool)) {
  return {make(2, 3, 4, false),  make(3, 5, 3, true),    make(1, 1, 1, false), make(1, 4, 16, true), make(5, 2, 17, false),
          make(18, 3, 33, true), make(35, 2, 15, false), make(0, 2, 4, false), make(3, 2, 70, true)};
}

// ---- what is not given

Value lengths_or_all(const Sequences& in) {
  if (in.lengths) return in.lengths;
  const Shape& x = in.x.shape();
  return x.rank() < 2 ? full(in.x.session(), i64({0}), 0) : full(in.x.session(), i64({x[0]}), static_cast<double>(x[1]));
}

Value state_or_zeros(Value given, const Sequences& in, const Value& weight) {
  if (given) return given;
  const Shape &x = in.x.shape(), &w = weight.shape();
  return full(in.x.session(), f32({x.empty() ? 0 : x[0], w.empty() ? 0 : w[0]}), 0);
}

// ---- on the host

std::vector<std::int64_t> steps_of(const HostCall& c, std::int64_t n) {
  const std::int64_t length = c.integer(c.inputs() - 1)[at(n)], most = c.in_shape(0)[1];
  if (length < 0 || length > most) throw DataError(fmt::format("length {} is out of range; accepted: 0..{}", length, most));
  std::vector<std::int64_t> steps(at(length));
  std::iota(steps.begin(), steps.end(), 0);
  if (is_reverse(c.attributes())) std::ranges::reverse(steps);
  return steps;
}

void clear_behind(const HostCall& c, int output, std::int64_t n, std::size_t length) {
  const Shape& s = c.out_shape(output);
  const std::size_t steps = at(s[1]), width = at(s[2]);
  std::ranges::fill(c.out_real(output).subspan((at(n) * steps + length) * width, (steps - length) * width), 0.0);
}

void add_product(std::span<const double> a, std::span<const double> weight, std::span<double> sums) {
  for (std::size_t k = 0; k < a.size(); ++k)
    for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += a[k] * weight[k * sums.size() + j];
}

void add_turned_product(std::span<const double> a, std::span<const double> weight, std::span<double> sums) {
  for (std::size_t k = 0; k < sums.size(); ++k)
    for (std::size_t j = 0; j < a.size(); ++j) sums[k] += a[j] * weight[k * a.size() + j];
}

// ---- in public operators

namespace {

Value number(Session& session, std::int64_t value) { return full(session, i64({1}), static_cast<double>(value)); }

}  // namespace

Value at_step(const Value& x, std::int64_t t) {
  const Shape& s = x.shape();
  return reshape(slice(x, {0, t, 0}, {s[0], t + 1, s[2]}), Shape{s[0], s[2]});
}

Value is_read(const Value& lengths, std::int64_t t) { return reshape(greater(lengths, number(lengths.session(), t)), Shape{lengths.shape()[0], 1}); }

Value before(const Before& b, std::int64_t t) {
  if (!b.reverse) return t > 0 ? at_step(b.states, t - 1) : b.start;
  return t + 1 < b.states.shape()[1] ? where(is_read(b.lengths, t + 1), at_step(b.states, t + 1), b.start) : b.start;
}

Value all_before(const Before& b) {
  const std::int64_t N = b.states.shape()[0], T = b.states.shape()[1], H = b.states.shape()[2];
  const Value start = reshape(b.start, Shape{N, 1, H});
  if (!b.reverse) return concatenate({start, slice(b.states, {0, 0, 0}, {N, T - 1, H})}, 1);
  std::vector<double> next(at(T));  // steps
  std::iota(next.begin(), next.end(), 1.0);
  const Value follows = greater(reshape(b.lengths, Shape{N, 1, 1}), b.states.session().tensor(i64({1, T, 1}), std::span<const double>(next)));
  return where(follows, concatenate({slice(b.states, {0, 1, 0}, {N, T, H}), start}, 1), start);
}

Value stacked(const Values& steps) {
  Values rows;
  for (const Value& x : steps) rows.push_back(reshape(x, Shape{x.shape()[0], 1, x.shape()[1]}));
  return concatenate(std::move(rows), 1);
}

std::vector<std::int64_t> forward_steps(std::int64_t steps, bool reverse) {
  std::vector<std::int64_t> out(at(steps));
  std::iota(out.begin(), out.end(), 0);
  if (reverse) std::ranges::reverse(out);
  return out;
}

Value gradient_or_zeros(const Backward& b, int output) { return b.has_gradient(output) ? b.gradient(output) : full(b.session(), b.output_spec(output), 0); }

Value rows_of(const Value& x) {
  const Shape& s = x.shape();
  return reshape(x, Shape{s[0] * s[1], s[2]});
}

}  // namespace gemel::recurrent
