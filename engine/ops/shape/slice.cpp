// slice, its gradient, and pad.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"
#include "engine/ops/shape/strided_copies.h"

namespace gemel::inline ops {
namespace {

void check_count(const char* op, const char* name, const Axes& list, const Spec& x) {
  if (static_cast<int>(list.size()) != x.shape.rank())
    throw ShapeError(fmt::format("{}: {} [{}] do not fit x {}; accepted: one an axis", op, name, fmt::join(list, ", "), to_string(x.shape)));
}

/// A start or stop that counts from the front. @throws ShapeError out of range
std::int64_t from_front(const char* name, const Shape& shape, int axis, std::int64_t at_axis) {
  const std::int64_t extent = shape[axis];
  if (at_axis < -extent || at_axis > extent)
    throw ShapeError(fmt::format("slice: {} {} of axis {} is out of range for x {}; accepted: {}..{}", name, at_axis, axis, to_string(shape), -extent, extent));
  return at_axis < 0 ? at_axis + extent : at_axis;
}

Axes from_front(const char* name, const Shape& shape, const Axes& list) {
  Axes out;
  for (int k = 0; k < shape.rank(); ++k) out.push_back(from_front(name, shape, k, list[at(k)]));
  return out;
}

void check_steps(const char* op, const Axes& steps) {
  for (std::int64_t step : steps)
    if (step < 1) throw ShapeError(fmt::format("{}: step {} is not positive; accepted: 1 or more", op, step));
}

Specs slice_infer(const Specs& in, const Attributes& a) {
  for (const char* name : {"starts", "stops", "steps"}) check_count("slice", name, a.integers(name), in[0]);
  check_steps("slice", a.integers("steps"));
  const Axes starts = from_front("start", in[0].shape, a.integers("starts")), stops = from_front("stop", in[0].shape, a.integers("stops"));
  Spec out = in[0];
  for (int k = 0; k < out.shape.rank(); ++k) out.shape[k] = std::max<std::int64_t>(0, ceil_div(stops[at(k)] - starts[at(k)], a.integers("steps")[at(k)]));
  return {out};
}

/// The box that a slice reads: its first element and strides in the tensor that it cuts from.
Move sliced_box(const Shape& whole, const Shape& part, const Axes& starts, const Axes& steps) {
  const Shape strides = row_major_strides(whole);
  Move m = box(part, whole, part);
  for (int k = 0; k < part.rank(); ++k) {
    m.from += starts[at(k)] * strides[k];
    m.axes[at(k)].from_stride *= steps[at(k)];
  }
  return m;
}

/// The same box the other way round.
Move reversed(Move m) {
  std::swap(m.from, m.to);
  for (Move::Axis& a : m.axes) std::swap(a.from_stride, a.to_stride);
  return m;
}

Moves slice_moves(const Problem& p) {
  const Axes starts = from_front("start", p.inputs[0].shape, p.attributes.integers("starts"));
  return {{sliced_box(p.inputs[0].shape, p.outputs[0].shape, starts, p.attributes.integers("steps"))}};
}

/// Calls f(element of the part, element of the whole) for a part that begins at `starts` and takes each steps-th element.
template <class F>
void each_pair(const Shape& part, const Shape& whole, const Axes& starts, const Axes& steps, F f) {
  const Shape strides = row_major_strides(whole);
  Shape walked = strides;
  std::int64_t first = 0;
  for (int k = 0; k < whole.rank(); ++k) {
    walked[k] = strides[k] * steps[at(k)];
    first += starts[at(k)] * strides[k];
  }
  walk<1>(part, {walked}, [&](std::int64_t i, const auto& offset) { f(at(i), at(first + offset[0])); });
}

void slice_reference(const HostCall& c) {
  const auto x = c.in<Cell>(0);
  const auto y = c.out<Cell>(0);
  each_pair(c.out_shape(0), c.in_shape(0), from_front("start", c.in_shape(0), c.attributes().integers("starts")), c.attributes().integers("steps"),
            [&](std::size_t i, std::size_t j) { y[i] = x[j]; });
}

Values slice_gradient_rule(const Backward& b) {
  const Axes starts = from_front("start", b.input_shape(0), b.attributes().integers("starts"));
  return {slice_gradient(b.gradient(0), b.input_shape(0), starts, b.attributes().integers("steps"))};
}

Axes after_last(const Shape& part, const Axes& starts, const Axes& steps) {
  Axes stops;
  for (int k = 0; k < part.rank(); ++k) stops.push_back(part[k] ? starts[at(k)] + (part[k] - 1) * steps[at(k)] + 1 : starts[at(k)]);
  return stops;
}

Specs slice_gradient_infer(const Specs& in, const Attributes& a) {
  const Shape& whole = a.shape("shape");
  for (const char* name : {"starts", "steps"}) check_count("slice_gradient", name, a.integers(name), in[0]);
  check_steps("slice_gradient", a.integers("steps"));
  const Axes &starts = a.integers("starts"), stops = after_last(in[0].shape, starts, a.integers("steps"));
  bool fits = whole.rank() == in[0].shape.rank();
  for (int k = 0; fits && k < whole.rank(); ++k) fits = starts[at(k)] >= 0 && stops[at(k)] <= whole[k];
  if (!fits)
    throw ShapeError(fmt::format("slice_gradient: dy {} from [{}] in steps of [{}] does not lie in {}; accepted: what slice gives", to_string(in[0].shape),
                                 fmt::join(starts, ", "), fmt::join(a.integers("steps"), ", "), to_string(whole)));
  return {{whole, in[0].dtype}};
}

Moves slice_gradient_moves(const Problem& p) {
  const Attributes& a = p.attributes;
  return {{reversed(sliced_box(a.shape("shape"), p.inputs[0].shape, a.integers("starts"), a.integers("steps")))}, 0.0};
}

void slice_gradient_reference(const HostCall& c) {
  const auto dy = c.in<Cell>(0);
  const auto dx = c.out<Cell>(0);
  std::fill(dx.begin(), dx.end(), Cell{});
  each_pair(c.in_shape(0), c.out_shape(0), c.attributes().integers("starts"), c.attributes().integers("steps"),
            [&](std::size_t i, std::size_t j) { dx[j] = dy[i]; });
}

Specs pad_infer(const Specs& in, const Attributes& a) {
  Spec out = in[0];
  for (const char* name : {"before", "after"}) {
    const Axes& added = a.integers(name);
    check_count("pad", name, added, in[0]);
    for (int k = 0; k < out.shape.rank(); ++k) {
      if (added[at(k)] < 0) throw ShapeError(fmt::format("pad: {} is {} for axis {}; accepted: 0 or more", name, added[at(k)], k));
      out.shape[k] += added[at(k)];
    }
  }
  return {out};
}

Moves pad_moves(const Problem& p) {
  const Shape& part = p.inputs[0].shape;
  const Axes steps(at(part.rank()), 1);
  return {{reversed(sliced_box(p.outputs[0].shape, part, p.attributes.integers("before"), steps))}, p.attributes.real("value")};
}

void pad_reference(const HostCall& c) {
  const double value = c.attributes().real("value");
  if (is_floating(c.out_spec(0).dtype))
    std::fill(c.out_real(0).begin(), c.out_real(0).end(), value);
  else
    std::fill(c.out_integer(0).begin(), c.out_integer(0).end(), static_cast<std::int64_t>(value));
  const auto x = c.in<Cell>(0);
  const auto y = c.out<Cell>(0);
  each_pair(c.in_shape(0), c.out_shape(0), c.attributes().integers("before"), Axes(at(c.in_shape(0).rank()), 1),
            [&](std::size_t i, std::size_t j) { y[j] = x[i]; });
}

Values pad_gradient(const Backward& b) {
  const Axes& before = b.attributes().integers("before");
  return {slice(b.gradient(0), before, after_last(b.input_shape(0), before, Axes(before.size(), 1)))};
}

Attributes cut(Axes starts, Axes stops, Axes steps) { return {{"starts", std::move(starts)}, {"stops", std::move(stops)}, {"steps", std::move(steps)}}; }
Attributes put(Shape shape, Axes starts, Axes steps) { return {{"shape", shape}, {"starts", std::move(starts)}, {"steps", std::move(steps)}}; }
Attributes around(Axes before, Axes after, double value) { return {{"before", std::move(before)}, {"after", std::move(after)}, {"value", value}}; }

}  // namespace

const OpDef& slice_def() {
  static const OpDef def{
      .name = "slice",
      .doc = "Elements starts, starts + steps, ... below stops of each axis.",
      .inputs = {"x"},
      .attributes = {{"starts", Type::integers, "first element of each axis; below 0 counts from the end"},
                     {"stops", Type::integers, "behind the last element of each axis; below 0 counts from the end"},
                     {"steps", Type::integers, "1 or more for each axis"}},
      .infer = slice_infer,
      .cost = move_cost,
      .reference = slice_reference,
      .gradient = slice_gradient_rule,
      .gradient_reads = {nothing},
      .variants = move_variants<slice_moves>(),
      .samples =
          [] {
            return also_in_two_bytes({{{f32({5, 7})}, cut({1, 0}, {4, 7}, {1, 1})},
                                      {{f32({5, 33})}, cut({0, -17}, {5, -1}, {1, 1})},
                                      {{f32({5, 7})}, cut({0, 1}, {5, 7}, {2, 3})},
                                      {{f32({2, 3, 4, 5})}, cut({0, 1, 1, 2}, {2, 3, 3, 5}, {1, 1, 1, 1})},
                                      {{f32({4})}, cut({3}, {2}, {1})},
                                      {{f32({65})}, cut({0}, {65}, {64})},
                                      {{i32({6, 2})}, cut({2, 0}, {6, 1}, {1, 1}), {integers(-9, 9)}},
                                      {{f32({})}, cut({}, {}, {})}},
                                     {0});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({3, 5})}, cut({0, 0}, {3, 9}, {1, 1}), "slice: stop 9 of axis 1 is out of range for x [3, 5]; accepted: -5..5"},
                                         {{f32({3, 5})}, cut({0}, {3, 5}, {1, 1}), "slice: starts [0] do not fit x [3, 5]; accepted: one an axis"},
                                         {{f32({3})}, cut({0}, {3}, {0}), "slice: step 0 is not positive; accepted: 1 or more"}};
          },
  };
  return def;
}

const OpDef& slice_gradient_def() {
  static const OpDef def{
      .name = "slice_gradient",
      .doc = "Zeros with dy where slice read.",
      .inputs = {"dy"},
      .attributes = {{"shape", Type::shape, "of what was cut"},
                     {"starts", Type::integers, "of the slice, 0 or more"},
                     {"steps", Type::integers, "of the slice"}},
      .infer = slice_gradient_infer,
      .cost = move_cost,
      .reference = slice_gradient_reference,
      .gradient = [](const Backward& b) -> Values {
        const Axes &starts = b.attributes().integers("starts"), &steps = b.attributes().integers("steps");
        return {slice(b.gradient(0), starts, after_last(b.input_shape(0), starts, steps), steps)};
      },
      .gradient_reads = {nothing},
      .variants = move_variants<slice_gradient_moves>(),
      .samples =
          [] {
            return also_in_two_bytes({{{f32({3, 5})}, put({5, 7}, {1, 0}, {1, 1})},
                                      {{f32({3, 2})}, put({5, 7}, {0, 2}, {2, 3})},
                                      {{f32({0, 3})}, put({4, 3}, {4, 0}, {1, 1})},
                                      {{f32({2, 1, 16})}, put({2, 3, 33}, {0, 2, 17}, {1, 1, 1})}},
                                     {0});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{
                {{f32({3})}, put({4}, {0}, {2}), "slice_gradient: dy [3] from [0] in steps of [2] does not lie in [4]; accepted: what slice gives"}};
          },
  };
  return def;
}

const OpDef& pad_def() {
  static const OpDef def{
      .name = "pad",
      .doc = "A value before and behind each axis.",
      .inputs = {"x"},
      .attributes = {{"before", Type::integers, "elements before each axis"},
                     {"after", Type::integers, "elements behind each axis"},
                     {"value", Type::real, "of the new elements"}},
      .infer = pad_infer,
      .cost = move_cost,
      .reference = pad_reference,
      .gradient = pad_gradient,
      .gradient_reads = {nothing},
      .variants = move_variants<pad_moves>(),
      .samples =
          [] {
            return also_in_two_bytes({{{f32({3, 5})}, around({1, 2}, {0, 3}, 0.0)},
                                      {{f32({2, 15, 17, 3})}, around({0, 1, 1, 0}, {0, 1, 1, 0}, -1.5)},
                                      {{f32({0, 2})}, around({2, 0}, {1, 1}, 4.0)},
                                      {{f32({3, 1})}, around({0, 0}, {0, 0}, 1.0)},
                                      {{i64({5})}, around({1}, {1}, 7.0), {integers(-9, 9)}},
                                      {{b8({5})}, around({0}, {3}, 1.0)}},
                                     {0});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({3})}, around({-1}, {0}, 0.0), "pad: before is -1 for axis 0; accepted: 0 or more"},
                                         {{f32({3})}, around({1}, {0, 0}, 0.0), "pad: after [0, 0] do not fit x [3]; accepted: one an axis"}};
          },
  };
  return def;
}

Value slice(Value x, const Axes& starts, const Axes& stops, const Axes& steps) {
  Axes each = steps.empty() ? Axes(starts.size(), 1) : steps;
  return apply(slice_def(), list(std::move(x)), {{"starts", starts}, {"stops", stops}, {"steps", std::move(each)}})[0];
}
Value slice_gradient(Value dy, const Shape& shape, const Axes& starts, const Axes& steps) {
  return apply(slice_gradient_def(), list(std::move(dy)), put(shape, starts, steps))[0];
}
Value pad(Value x, const Axes& before, const Axes& after, double value) { return apply(pad_def(), list(std::move(x)), around(before, after, value))[0]; }

}  // namespace gemel::inline ops
