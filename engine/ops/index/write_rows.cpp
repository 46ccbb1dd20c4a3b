// write_rows: writes rows of a tensor in place at a position that is on the device, such as a cache that grows step by step under one plan.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

constexpr int kDestination = 0, kStart = 1, kSource = 2;  // inputs
constexpr std::int64_t kChunk = 8192;                     // elements that one work-item of a CPU copies

/// The destination as [outer, n, inner] about the axis; `count` rows of it are written.
struct Rows {
  std::int64_t outer, n, inner, count;
};
Rows rows_of(const Shape& destination, const Shape& source, const Attributes& a) {
  const int axis = checked_axis("write_rows", "destination", destination, a.integer("axis"));
  return {destination.product(0, axis), destination[axis], destination.product(axis + 1, destination.rank()), source[axis]};
}

Specs infer(const Specs& in, const Attributes& a) {
  const Spec &destination = in[kDestination], &start = in[kStart], &source = in[kSource];
  const int axis = checked_axis("write_rows", "destination", destination.shape, a.integer("axis"));
  check_same_dtype("write_rows", destination, source);
  check_integer("write_rows", "start", start);
  if (start.elements() != 1) throw ShapeError(fmt::format("write_rows: start is {}; accepted: one element", to_string(start)));
  Shape most = source.shape;
  if (most.rank() == destination.shape.rank()) most[axis] = destination.shape[axis];
  if (most != destination.shape || source.shape[axis] > most[axis])
    throw ShapeError(fmt::format("write_rows: source is {} for axis {} of {}; accepted: as many rows or fewer, other extents equal", to_string(source.shape),
                                 axis, to_string(destination.shape)));
  return {};
}

void reference(const HostCall& c) {
  const Rows r = rows_of(c.in_shape(kDestination), c.in_shape(kSource), c.attributes());
  const std::int64_t start = c.integer(kStart)[0], span = r.count * r.inner;
  if (start < 0 || start > r.n - r.count) throw DataError(fmt::format("write_rows: start {} is out of range; accepted: 0..{}", start, r.n - r.count));
  const auto from = c.in<Cell>(kSource);
  const auto to = c.written<Cell>(kDestination);
  for (std::int64_t o = 0; o < r.outer; ++o) std::copy_n(from.begin() + o * span, span, to.begin() + (o * r.n + start) * r.inner);
}

std::string options_for(const Launch& l) {
  const std::size_t size = size_of(l.in_spec(kSource).dtype);
  return std::string("-DT=") +
         (size == 1   ? "uchar"
          : size == 2 ? "ushort"
          : size == 4 ? "uint"
                      : "ulong") +
         " -DINDEX=" + std::string(opencl_name(l.in_spec(kStart).dtype));
}

/// @param chunk  elements of a work-item  @param range  of the work-items
void launch(const Launch& l, std::int64_t chunk, decltype(range_of_places)* range) {
  const Rows r = rows_of(l.in_shape(kDestination), l.in_shape(kSource), l.attributes());
  l.run("any/write_rows.cl", "write_rows", range({ceil_div(r.count * r.inner, chunk), r.outer, 1}, l.profile()),
        {l.in(kDestination), l.in(kStart), l.in(kSource), l.error_word(), r.outer, r.n, r.count, r.inner, chunk}, options_for(l));
}

}  // namespace

const OpDef& write_rows_def() {
  static const OpDef def{
      .name = "write_rows",
      .doc = "Rows start, start + 1, ... of the destination's axis become those of the source, in place.",
      .inputs = {"destination", "start", "source"},
      .outputs = {},
      .attributes = {{"axis", Type::integer, "axis of rows, -rank..rank-1"}},
      .infer = infer,
      .cost =
          [](const Problem& p) {
            return Cost{0, 2 * p.inputs[kSource].bytes() + p.inputs[kStart].bytes()};
          },
      .reference = reference,
      .writes = {kDestination},
      .variants = {{.name = "chunks",
                    .doc = "a run of elements for each work-item",
                    .target = Target::cpu,
                    .launch = [](Launch& l) { launch(l, kChunk, range_of_blocks); }},
                   {.name = "items", .doc = "one work-item an element", .launch = [](Launch& l) { launch(l, 1, range_of_places); }}},
      .samples =
          [] {
            const auto along = [](std::int64_t axis) { return Attributes{{"axis", axis}}; };
            return also_in_two_bytes({{{f32({7, 5}), i64({}), f32({3, 5})}, along(0), {Fill{}, integers(0, 5), Fill{}}},
                                      {{f32({2, 65, 17}), i64({1}), f32({2, 1, 17})}, along(1), {Fill{}, integers(0, 65), Fill{}}},
                                      {{f32({3, 4, 65, 64}), i32({}), f32({3, 4, 33, 64})}, along(-2), {Fill{}, integers(0, 33), Fill{}}},
                                      {{f32({5}), i64({}), f32({5})}, along(0), {Fill{}, integers(0, 1), Fill{}}},
                                      {{f32({5, 2}), i64({}), f32({0, 2})}, along(0), {Fill{}, integers(0, 6), Fill{}}},
                                      {{i64({6, 2}), i32({1, 1}), i64({4, 2})}, along(0), {integers(-9, 9), integers(0, 3), integers(-9, 9)}},
                                      {{b8({2, 6}), i64({}), b8({2, 3})}, along(1), {Fill{}, integers(0, 4), Fill{}}}},
                                     {1}, inputs(kDestination, kSource));
          },
      .rejected =
          [] {
            const auto along = [](std::int64_t axis) { return Attributes{{"axis", axis}}; };
            return std::vector<Rejected>{
                {{f32({4, 3}), i64({}), f32({5, 3})},
                 along(0),
                 "write_rows: source is [5, 3] for axis 0 of [4, 3]; accepted: as many rows or fewer, other extents equal"},
                {{f32({4, 3}), i64({}), f32({2, 2})},
                 along(0),
                 "write_rows: source is [2, 2] for axis 0 of [4, 3]; accepted: as many rows or fewer, other extents equal"},
                {{f32({4, 3}), i64({}), f32({3})},
                 along(0),
                 "write_rows: source is [3] for axis 0 of [4, 3]; accepted: as many rows or fewer, other extents equal"},
                {{f32({4}), i64({2}), f32({2})}, along(0), "write_rows: start is int64 [2]; accepted: one element"},
                {{f32({4}), f32({}), f32({2})}, along(0), "write_rows: start is float32 []; accepted: int32 or int64"},
                {{f32({4}), i64({}), i32({2})}, along(0), "write_rows: float32 [4] and int32 [2] differ in element type; accepted: equal types, cast one"},
                {{f32({4}), i64({}), f32({2})}, along(1), "write_rows: axis 1 is out of range for destination [4]; accepted: -1..0"}};
          },
  };
  return def;
}

void write_rows(const Value& destination, Value start, Value source, std::int64_t axis) {
  apply(write_rows_def(), list(destination.detached(), std::move(start), std::move(source)), {{"axis", axis}});
}

}  // namespace gemel::inline ops
