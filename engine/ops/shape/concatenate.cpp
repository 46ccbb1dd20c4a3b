// concatenate and split.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"
#include "engine/ops/shape/strided_copies.h"

namespace gemel::inline ops {
namespace {

/// Moves between a whole tensor and its parts along an axis. @param part_of  the box of part i that begins `before` into the axis
template <class F>
Moves moves_of_parts(const Specs& parts, const Shape& whole, int axis, F part_of) {
  Moves moves;
  const std::int64_t stride = row_major_strides(whole)[axis];
  std::int64_t before = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    moves.boxes.push_back(part_of(static_cast<int>(i), parts[i].shape, before * stride));
    before += parts[i].shape[axis];
  }
  return moves;
}

int axis_of(const char* op, const Spec& spec, const Attributes& a) { return checked_axis(op, "x", spec.shape, a.integer("axis")); }

Specs concatenate_infer(const Specs& in, const Attributes& a) {
  if (in.empty()) throw ShapeError("concatenate: no tensors are given; accepted: one or more");
  const int axis = axis_of("concatenate", in[0], a);
  Shape shape = in[0].shape;
  for (std::size_t i = 1; i < in.size(); ++i) {
    check_same_dtype("concatenate", in[0], in[i]);
    Shape expected = in[0].shape;
    if (in[i].shape.rank() == expected.rank()) expected[axis] = in[i].shape[axis];
    if (in[i].shape != expected)
      throw ShapeError(
          fmt::format("concatenate: {} and {} do not join along axis {}; accepted: other extents equal", to_string(in[0].shape), to_string(in[i].shape), axis));
    shape[axis] += in[i].shape[axis];
  }
  return {{shape, in[0].dtype}};
}

Moves concatenate_moves(const Problem& p) {
  const Shape& whole = p.outputs[0].shape;
  return moves_of_parts(Specs(p.inputs.begin(), p.inputs.end()), whole, axis_of("concatenate", p.inputs[0], p.attributes),
                        [&](int i, const Shape& part, std::int64_t offset) {
                          Move m = box(part, part, whole);
                          m.input = i;
                          m.to = offset;
                          return m;
                        });
}

/// Calls f(part, element of the part, element of the whole) for each element, in the plainest order.
template <class F>
void each_element(const Shape& whole, int axis, const std::vector<std::int64_t>& extents, F f) {
  const std::int64_t inner = whole.product(axis + 1, whole.rank());
  for (std::int64_t o = 0, outer = whole.product(0, axis); o < outer; ++o)
    for (std::int64_t part = 0, before = 0; part < static_cast<std::int64_t>(extents.size()); before += extents[at(part)], ++part)
      for (std::int64_t k = 0; k < extents[at(part)] * inner; ++k)
        f(static_cast<int>(part), o * extents[at(part)] * inner + k, (o * whole[axis] + before) * inner + k);
}

void concatenate_reference(const HostCall& c) {
  const int axis = axis_of("concatenate", c.in_spec(0), c.attributes());
  std::vector<std::int64_t> extents;
  for (int i = 0; i < c.inputs(); ++i) extents.push_back(c.in_shape(i)[axis]);
  const auto y = c.out<Cell>(0);
  each_element(c.out_shape(0), axis, extents, [&](int part, std::int64_t of_part, std::int64_t of_whole) { y[at(of_whole)] = c.in<Cell>(part)[at(of_part)]; });
}

Values concatenate_gradient(const Backward& b) {
  const Shape whole = b.output_spec(0).shape;
  const int axis = axis_of("concatenate", b.output_spec(0), b.attributes());
  Axes starts(at(whole.rank()), 0), stops(whole.begin(), whole.end());
  Values out;
  for (int i = 0; i < b.input_count(); ++i) {
    stops[at(axis)] = starts[at(axis)] + b.input_shape(i)[axis];
    out.push_back(b.wants(i) ? slice(b.gradient(0), starts, stops) : Value());
    starts[at(axis)] = stops[at(axis)];
  }
  return out;
}

Specs split_infer(const Specs& in, const Attributes& a) {
  const int axis = axis_of("split", in[0], a);
  const auto& extents = a.integers("extents");
  const bool negative = std::any_of(extents.begin(), extents.end(), [](std::int64_t e) { return e < 0; });
  if (negative || std::accumulate(extents.begin(), extents.end(), std::int64_t{0}) != in[0].shape[axis])
    throw ShapeError(fmt::format("split: extents [{}] do not cut axis {} of x {}; accepted: extents that add up to {}", fmt::join(extents, ", "), axis,
                                 to_string(in[0].shape), in[0].shape[axis]));
  Specs out(extents.size(), in[0]);
  for (std::size_t i = 0; i < extents.size(); ++i) out[i].shape[axis] = extents[i];
  return out;
}

Moves split_moves(const Problem& p) {
  const Shape& whole = p.inputs[0].shape;
  return moves_of_parts(Specs(p.outputs.begin(), p.outputs.end()), whole, axis_of("split", p.inputs[0], p.attributes),
                        [&](int i, const Shape& part, std::int64_t offset) {
                          Move m = box(part, whole, part);
                          m.output = i;
                          m.from = offset;
                          return m;
                        });
}

void split_reference(const HostCall& c) {
  const auto x = c.in<Cell>(0);
  each_element(c.in_shape(0), axis_of("split", c.in_spec(0), c.attributes()), c.attributes().integers("extents"),
               [&](int part, std::int64_t of_part, std::int64_t of_whole) { c.out<Cell>(part)[at(of_part)] = x[at(of_whole)]; });
}

Values split_gradient(const Backward& b) {
  Values parts;
  for (int o = 0; o < b.output_count(); ++o) parts.push_back(b.has_gradient(o) ? b.gradient(o) : full(b.session(), b.output_spec(o), 0));
  return {concatenate(std::move(parts), b.attributes().integer("axis"))};
}

}  // namespace

const OpDef& concatenate_def() {
  static const OpDef def{
      .name = "concatenate",
      .doc = "Joins tensors along an axis.",
      .inputs = {"x..."},
      .attributes = {{"axis", Type::integer, "joined axis, -rank..rank-1"}},
      .infer = concatenate_infer,
      .cost = move_cost,
      .reference = concatenate_reference,
      .gradient = concatenate_gradient,
      .gradient_reads = {nothing},
      .variants = move_variants<concatenate_moves>(),
      .samples =
          [] {
            const auto along = [](std::int64_t axis) { return Attributes{{"axis", axis}}; };
            return also_in_two_bytes({{{f32({3, 5}), f32({2, 5})}, along(0)},
                                      {{f32({3, 5}), f32({3, 1}), f32({3, 16})}, along(-1)},
                                      {{f32({2, 3, 3, 17}), f32({2, 3, 3, 31})}, along(3)},
                                      {{f32({2, 3, 5}), f32({2, 0, 5}), f32({2, 2, 5})}, along(1)},
                                      {{f32({65})}, along(0)},
                                      {{f32({0, 3}), f32({0, 3})}, along(0)},
                                      {{i64({4}), i64({3})}, along(0), {integers(-9, 9)}}},
                                     {0});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{
                {{f32({2, 3}), f32({2, 4})},
                 {{"axis", std::int64_t{0}}},
                 "concatenate: [2, 3] and [2, 4] do not join along axis 0; accepted: other extents equal"},
                {{f32({2}), f32({2, 4})}, {{"axis", std::int64_t{0}}}, "concatenate: [2] and [2, 4] do not join along axis 0; accepted: other extents equal"},
                {{f32({2}), i32({2})},
                 {{"axis", std::int64_t{0}}},
                 "concatenate: float32 [2] and int32 [2] differ in element type; accepted: equal types, cast one"},
                {{f32({2})}, {{"axis", std::int64_t{1}}}, "concatenate: axis 1 is out of range for x [2]; accepted: -1..0"},
                {{}, {{"axis", std::int64_t{0}}}, "concatenate: no tensors are given; accepted: one or more"}};
          },
  };
  return def;
}

const OpDef& split_def() {
  static const OpDef def{
      .name = "split",
      .doc = "Cuts along an axis into parts.",
      .inputs = {"x"},
      .outputs = {"y..."},
      .attributes = {{"extents", Type::integers, "of the parts, which add up to the axis"}, {"axis", Type::integer, "cut axis, -rank..rank-1"}},
      .infer = split_infer,
      .cost = move_cost,
      .reference = split_reference,
      .gradient = split_gradient,
      .gradient_reads = {nothing},
      .variants = move_variants<split_moves>(),
      .samples =
          [] {
            const auto into = [](Axes extents, std::int64_t axis) { return Attributes{{"extents", std::move(extents)}, {"axis", axis}}; };
            return also_in_two_bytes({{{f32({5, 3})}, into({2, 3}, 0)},
                                      {{f32({3, 33})}, into({1, 15, 17}, -1)},
                                      {{f32({2, 5, 4})}, into({2, 0, 3}, 1)},
                                      {{f32({64})}, into({64}, 0)},
                                      {{f32({0, 4})}, into({1, 3}, 1)},
                                      {{b8({6})}, into({2, 4}, 0)},
                                      {{f32({2, 20000})}, into({17000, 3000}, 1)}},
                                     {0});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({2, 3})},
                                          {{"extents", Axes{1, 1}}, {"axis", std::int64_t{1}}},
                                          "split: extents [1, 1] do not cut axis 1 of x [2, 3]; accepted: extents that add up to 3"},
                                         {{f32({2, 3})},
                                          {{"extents", Axes{4, -1}}, {"axis", std::int64_t{-1}}},
                                          "split: extents [4, -1] do not cut axis 1 of x [2, 3]; accepted: extents that add up to 3"}};
          },
  };
  return def;
}

Value concatenate(Values xs, std::int64_t axis) {
  if (xs.empty()) throw ShapeError("concatenate: no tensors are given; accepted: one or more");
  return apply(concatenate_def(), std::move(xs), {{"axis", axis}})[0];
}

Values split(Value x, const std::vector<std::int64_t>& extents, std::int64_t axis) {
  return apply(split_def(), list(std::move(x)), {{"extents", extents}, {"axis", axis}});
}

}  // namespace gemel::inline ops
