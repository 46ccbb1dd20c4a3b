// Shapes: the same elements seen otherwise, or repeated.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"

namespace gemel {
namespace {

Specs reshape_infer(const Specs& in, const Attributes& a) {
  const Shape& shape = a.shape("shape");
  if (shape.elements() != in[0].elements())
    throw ShapeError(fmt::format("reshape: x {} has {} elements, {} has {}; accepted: as many", to_string(in[0].shape),
                                 in[0].elements(), to_string(shape), shape.elements()));
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
    throw ShapeError(fmt::format("broadcast_to: x {} does not broadcast to {}; accepted: equal extents or 1, from the last axis",
                                 to_string(in[0].shape), to_string(shape)));
  return {{shape, in[0].dtype}};
}

void broadcast_to_reference(const HostCall& c) {
  const auto x = c.in<Cell>(0);
  const auto y = c.out<Cell>(0);
  walk<1>(c.out_shape(0), {broadcast_strides(c.in_shape(0), c.out_shape(0))},
          [&](std::int64_t i, const auto& offset) { y[at(i)] = x[at(offset[0])]; });
}

}  // namespace

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
      .samples = [] {
        return std::vector<Sample>{{{f32({2, 6})}, {{"shape", Shape{3, 4}}}}, {{f32({1, 1})}, {{"shape", Shape{}}}},
                                   {{f32({0, 3})}, {{"shape", Shape{3, 0}}}}};
      },
      .rejected = [] {
        return std::vector<Rejected>{{{f32({2, 3})}, {{"shape", Shape{4}}},
                                      "reshape: x [2, 3] has 6 elements, [4] has 4; accepted: as many"}};
      }};
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
      .samples = [] {
        return std::vector<Sample>{{{f32({3, 1})}, {{"shape", Shape{3, 5}}}},
                                   {{f32({5})}, {{"shape", Shape{3, 5}}}},
                                   {{f32({})}, {{"shape", Shape{33, 65}}}},
                                   {{f32({3, 1, 4, 1})}, {{"shape", Shape{2, 3, 5, 4, 3}}}},
                                   {{f32({1, 4})}, {{"shape", Shape{0, 4}}}}};
      },
      .rejected = [] {
        return std::vector<Rejected>{
            {{f32({2, 3})}, {{"shape", Shape{2, 4}}},
             "broadcast_to: x [2, 3] does not broadcast to [2, 4]; accepted: equal extents or 1, from the last axis"}};
      }};
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
      throw ShapeError(fmt::format("reshape: x {} does not fit [{}]; accepted: extents whose product divides {}",
                                   to_string(x.shape()), fmt::join(shape, ", "), x.elements()));
    known[static_cast<int>(rest)] = x.elements() / product;
  }
  return reshape(std::move(x), known);
}

Value broadcast_to(Value x, const Shape& shape) {
  if (x.shape() == shape) return x;
  return apply(broadcast_to_def(), list(std::move(x)), {{"shape", shape}})[0];
}

}  // namespace gemel
