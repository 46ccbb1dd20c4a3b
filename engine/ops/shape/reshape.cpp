// reshape, broadcast_to and transpose.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"
#include "engine/ops/shape/strided_copies.h"

namespace gemel::inline ops {
namespace {

Specs reshape_infer(const Specs& in, const Attributes& a) {
  const Shape& shape = a.shape("shape");
  if (shape.elements() != in[0].elements())
    throw ShapeError(fmt::format("reshape: x {} has {} elements, {} has {}; accepted: as many", to_string(in[0].shape), in[0].elements(), to_string(shape),
                                 shape.elements()));
  return {{shape, in[0].dtype}};
}

Specs broadcast_to_infer(const Specs& in, const Attributes& a) {
  const Shape& shape = a.shape("shape");
  bool fits = in[0].shape.rank() <= shape.rank();
  for (int k = 1; fits && k <= in[0].shape.rank(); ++k) {
    const std::int64_t from = in[0].shape[in[0].shape.rank() - k], to = shape[shape.rank() - k];
    fits = from == to || from == 1;
  }
  if (!fits)
    throw ShapeError(
        fmt::format("broadcast_to: x {} does not broadcast to {}; accepted: equal extents or 1, from the last axis", to_string(in[0].shape), to_string(shape)));
  return {{shape, in[0].dtype}};
}

void broadcast_to_reference(const HostCall& c) {
  const auto x = c.in<Cell>(0);
  const auto y = c.out<Cell>(0);
  walk<1>(c.out_shape(0), {broadcast_strides(c.in_shape(0), c.out_shape(0))}, [&](std::int64_t i, const auto& offset) { y[at(i)] = x[at(offset[0])]; });
}

Specs transpose_infer(const Specs& in, const Attributes& a) {
  const Axes& order = a.integers("order");
  Axes sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool each_once = static_cast<int>(order.size()) == in[0].shape.rank();
  for (std::size_t k = 0; each_once && k < sorted.size(); ++k) each_once = sorted[k] == static_cast<std::int64_t>(k);
  if (!each_once)
    throw ShapeError(fmt::format("transpose: order [{}] does not fit x {}; accepted: each axis from 0 once", fmt::join(order, ", "), to_string(in[0].shape)));
  Shape shape;
  for (std::int64_t k : order) shape.push_back(in[0].shape[static_cast<int>(k)]);
  return {{shape, in[0].dtype}};
}

void transpose_reference(const HostCall& c) {
  const auto x = c.in<Cell>(0);
  const auto y = c.out<Cell>(0);
  const Shape strides = row_major_strides(c.in_shape(0));
  Shape walked;
  for (std::int64_t k : c.attributes().integers("order")) walked.push_back(strides[static_cast<int>(k)]);
  walk<1>(c.out_shape(0), {walked}, [&](std::int64_t i, const auto& offset) { y[at(i)] = x[at(offset[0])]; });
}

Moves transpose_moves(const Problem& p) {
  const Shape from = row_major_strides(p.inputs[0].shape), to = row_major_strides(p.outputs[0].shape);
  const Axes& order = p.attributes.integers("order");
  Move m;
  for (int k = 0; k < to.rank(); ++k) m.axes.push_back({p.outputs[0].shape[k], from[static_cast<int>(order[at(k)])], to[k]});
  return {{m}};
}

Values transpose_gradient(const Backward& b) {
  const Axes& order = b.attributes().integers("order");
  Axes inverse(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) inverse[at(order[k])] = static_cast<std::int64_t>(k);
  return {transpose(b.gradient(0), inverse)};
}

/// Whether the axes of more than one element stay in their order, so that no element moves.
bool moves_nothing(const Shape& shape, const Axes& order) {
  std::int64_t last = -1;
  for (std::int64_t k : order) {
    if (shape[static_cast<int>(k)] == 1) continue;
    if (k < last) return false;
    last = k;
  }
  return true;
}

}  // namespace

const OpDef& transpose_def() {
  static const OpDef def{
      .name = "transpose",
      .doc = "The axes in another order: y's axis i is x's axis order[i].",
      .inputs = {"x"},
      .attributes = {{"order", Type::integers, "each axis of x once"}},
      .infer = transpose_infer,
      .cost = move_cost,
      .reference = transpose_reference,
      .gradient = transpose_gradient,
      .gradient_reads = {nothing},
      .variants = move_variants<transpose_moves>(),
      .samples =
          [] {
            const auto order = [](Axes axes) { return Attributes{{"order", std::move(axes)}}; };
            return also_in_two_bytes({{{f32({3, 5})}, order({1, 0})},
                                      {{f32({33, 65})}, order({1, 0})},
                                      {{f32({2, 17, 16, 3})}, order({0, 3, 1, 2})},
                                      {{f32({2, 5, 4, 33})}, order({0, 2, 1, 3})},
                                      {{f32({3, 4, 5, 6})}, order({3, 1, 2, 0})},
                                      {{f32({2, 3, 4, 2, 3})}, order({4, 2, 0, 3, 1})},
                                      {{f32({7, 1, 4})}, order({1, 0, 2})},
                                      {{f32({0, 4})}, order({1, 0})},
                                      {{f32({})}, order({})},
                                      {{i64({15, 4})}, order({1, 0}), {integers(-9, 9)}},
                                      {{b8({4, 15})}, order({1, 0})}},
                                     {1});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{
                {{f32({2, 3})}, {{"order", Axes{1, 1}}}, "transpose: order [1, 1] does not fit x [2, 3]; accepted: each axis from 0 once"}};
          },
  };
  return def;
}

const OpDef& reshape_def() {
  static const OpDef def{
      .name = "reshape",
      .doc = "The same elements, in the same order, under another shape. Shares memory.",
      .inputs = {"x"},
      .attributes = {{"shape", Type::shape, "of the result, with as many elements"}},
      .infer = reshape_infer,
      .cost = [](const Problem&) { return Cost{}; },
      .gradient = [](const Backward& b) -> Values { return {reshape(b.gradient(0), b.input_shape(0))}; },
      .gradient_reads = {nothing},
      .views = 0,
      .samples =
          [] {
            return also_in_two_bytes(
                {{{f32({2, 6})}, {{"shape", Shape{3, 4}}}}, {{f32({1, 1})}, {{"shape", Shape{}}}}, {{f32({0, 3})}, {{"shape", Shape{3, 0}}}}}, {0});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({2, 3})}, {{"shape", Shape{4}}}, "reshape: x [2, 3] has 6 elements, [4] has 4; accepted: as many"}};
          },
  };
  return def;
}

const OpDef& broadcast_to_def() {
  static const OpDef def{
      .name = "broadcast_to",
      .doc = "Repeats along axes of extent 1, and along new leading axes.",
      .inputs = {"x"},
      .attributes = {{"shape", Type::shape, "of the result"}},
      .infer = broadcast_to_infer,
      .cost = elementwise_cost,
      .reference = broadcast_to_reference,
      .gradient = [](const Backward& b) -> Values { return {sum_to(b.gradient(0), b.input_shape(0))}; },
      .gradient_reads = {nothing},
      .elementwise = Elementwise{"x0"},
      .variants = elementwise_variants(),
      .samples =
          [] {
            return also_in_two_bytes({{{f32({3, 1})}, {{"shape", Shape{3, 5}}}},
                                      {{f32({5})}, {{"shape", Shape{3, 5}}}},
                                      {{f32({})}, {{"shape", Shape{33, 65}}}},
                                      {{f32({3, 1, 4, 1})}, {{"shape", Shape{2, 3, 5, 4, 3}}}},
                                      {{f32({1, 4})}, {{"shape", Shape{0, 4}}}}},
                                     {0, 3});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({2, 3})},
                                          {{"shape", Shape{2, 4}}},
                                          "broadcast_to: x [2, 3] does not broadcast to [2, 4]; accepted: equal extents or 1, from the last axis"}};
          },
  };
  return def;
}

Value reshape(Value x, const Shape& shape) {
  if (x.shape() == shape) return x;
  return apply(reshape_def(), list(std::move(x)), {{"shape", shape}})[0];
}

Value reshape(Value x, const std::vector<std::int64_t>& shape) {
  Shape known;
  std::int64_t rest = -1, product = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && rest < 0)
      rest = static_cast<std::int64_t>(i);
    else
      product *= shape[i];
    known.push_back(shape[i] == -1 && rest == static_cast<std::int64_t>(i) ? 1 : shape[i]);
  }
  if (rest >= 0) {
    if (product <= 0 || x.elements() % product)
      throw ShapeError(fmt::format("reshape: x {} does not fit [{}]; accepted: extents whose product divides {}", to_string(x.shape()), fmt::join(shape, ", "),
                                   x.elements()));
    known[static_cast<int>(rest)] = x.elements() / product;
  }
  return reshape(std::move(x), known);
}

Value broadcast_to(Value x, const Shape& shape) {
  if (x.shape() == shape) return x;
  return apply(broadcast_to_def(), list(std::move(x)), {{"shape", shape}})[0];
}

Value transpose(Value x, const Axes& order) {
  const Spec spec = transpose_infer({x.spec()}, {{"order", order}})[0];
  if (moves_nothing(x.shape(), order)) return reshape(std::move(x), spec.shape);
  return apply(transpose_def(), list(std::move(x)), {{"order", order}})[0];
}

}  // namespace gemel::inline ops
