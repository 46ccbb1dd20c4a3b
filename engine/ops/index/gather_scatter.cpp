// Operators with indices: gather, its gradient, scatter_add and one_hot. The host checks indices where they enter; kernels skip those out of range and set the
// device's error word.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

constexpr std::int64_t kRowElements = 4096;  // that one work-item of a CPU gathers
constexpr std::int64_t kColumns = 64;        // that one work-item of a CPU adds to

/// x as [outer, n, inner] about the indexed axis; `count` indices.
struct Rows {
  std::int64_t outer, n, inner, count;
};
Rows rows_of(const char* op, const Shape& x, const Shape& indices, const Attributes& a) {
  const int axis = checked_axis(op, "x", x, a.integer("axis"));
  return {x.product(0, axis), x[axis], x.product(axis + 1, x.rank()), indices.elements()};
}

/// The shape of x with its axis replaced by the axes of the indices.
Shape gathered_shape(const char* op, const Spec& x, const Spec& indices, const Attributes& a) {
  check_integer(op, "indices", indices);
  const int axis = checked_axis(op, "x", x.shape, a.integer("axis"));
  if (x.shape.rank() - 1 + indices.shape.rank() > Shape::kMaxRank)
    throw ShapeError(
        fmt::format("{}: x {} and indices {} give more than {} axes; accepted: fewer", op, to_string(x.shape), to_string(indices.shape), Shape::kMaxRank));
  Shape out(x.shape.span().first(at(axis)));
  for (std::int64_t extent : indices.shape) out.push_back(extent);
  for (int k = axis + 1; k < x.shape.rank(); ++k) out.push_back(x.shape[k]);
  return out;
}

Specs gather_infer(const Specs& in, const Attributes& a) { return {{gathered_shape("gather", in[0], in[1], a), in[0].dtype}}; }

/// @throws DataError on the host, where nothing is skipped
std::int64_t checked_index(const char* op, std::int64_t index, std::int64_t bound) {
  if (index < 0 || index >= bound) throw DataError(fmt::format("{}: index {} is out of range; accepted: 0..{}", op, index, bound - 1));
  return index;
}

/// Calls f(element of x, element of y) for every element of gather's y.
template <class F>
void each_gathered(const char* op, const Rows& r, std::span<const std::int64_t> indices, F f) {
  for (std::int64_t o = 0; o < r.outer; ++o)
    for (std::int64_t k = 0; k < r.count; ++k) {
      const std::int64_t row = checked_index(op, indices[at(k)], r.n);
      for (std::int64_t i = 0; i < r.inner; ++i) f(at((o * r.n + row) * r.inner + i), at((o * r.count + k) * r.inner + i));
    }
}

void gather_reference(const HostCall& c) {
  const auto x = c.in<Cell>(0);
  const auto y = c.out<Cell>(0);
  each_gathered("gather", rows_of("gather", c.in_shape(0), c.in_shape(1), c.attributes()), c.integer(1),
                [&](std::size_t from, std::size_t to) { y[to] = x[from]; });
}

Values gather_gradient(const Backward& b) {
  const Spec& x = b.input_spec(0);
  if (b.by_rows(0) && checked_axis("gather", "x", x.shape, b.attributes().integer("axis")) == 0) {
    const std::int64_t count = b.input_shape(1).elements();
    return {table_of({reshape(b.input(1), Shape{count}), reshape(b.gradient(0), Shape{count, x.shape[1]})}, x), Value()};
  }
  const Value place = x.dtype == DType::float32 ? b.place(0) : Value();  // sums of two-byte numbers are rounded once, at the end
  return {cast(gather_gradient(cast(b.gradient(0), DType::float32), b.input(1), x.shape, b.attributes().integer("axis"), place), x.dtype), Value()};
}

std::string index_option(const Spec& indices) { return " -DINDEX=" + std::string(opencl_name(indices.dtype)); }

/// Gathering looks at the size of an element only.
std::string moved_options(const Launch& l) {
  const std::size_t size = size_of(l.in_spec(0).dtype);
  return std::string("-DT=") + (size == 1 ? "uchar" : size == 2 ? "ushort" : size == 4 ? "uint" : "ulong") + index_option(l.in_spec(1));
}

void gather_rows_launch(Launch& l) {
  const Rows r = rows_of("gather", l.in_shape(0), l.in_shape(1), l.attributes());
  if (l.out_spec(0).elements() == 0) return;
  const std::int64_t rows = r.outer * r.count, row_block = std::max<std::int64_t>(1, kRowElements / r.inner);
  l.run("cpu/gather.cl", "gather_rows", opencl::range1(ceil_div(rows, row_block), 1),
        {l.in(0), l.in(1), l.out(0), l.error_word(), rows, r.n, r.count, r.inner, row_block}, moved_options(l));
}

void gather_items_launch(Launch& l) {
  const Rows r = rows_of("gather", l.in_shape(0), l.in_shape(1), l.attributes());
  l.run("any/gather.cl", "gather_items", range_of_places({r.inner, r.count, r.outer}, l.profile()),
        {l.in(0), l.in(1), l.out(0), l.error_word(), r.outer, r.n, r.count, r.inner}, moved_options(l));
}

Specs scatter_add_infer(const Specs& in, const Attributes& a) {
  // Not float16 or bfloat16, where each addition would round.
  check_type("scatter_add", "x", in[0], {DType::float32, DType::int32, DType::int64}, "float32, int32 or int64");
  check_same_dtype("scatter_add", in[0], in[2]);
  check_shape("scatter_add", "updates", in[2], gathered_shape("scatter_add", in[0], in[1], a));
  return {in[0]};
}

template <class T>
void scatter_add_cells(const HostCall& c) {
  const auto x = c.in<T>(0);
  const auto updates = c.in<T>(2);
  const auto y = c.out<T>(0);
  if (x.data() != y.data()) std::copy(x.begin(), x.end(), y.begin());
  each_gathered("scatter_add", rows_of("scatter_add", c.in_shape(0), c.in_shape(1), c.attributes()), c.integer(1),
                [&](std::size_t to, std::size_t from) { y[to] += updates[from]; });
}

void scatter_add_reference(const HostCall& c) { is_floating(c.in_spec(0).dtype) ? scatter_add_cells<double>(c) : scatter_add_cells<std::int64_t>(c); }

Values scatter_add_gradient(const Backward& b) {
  return {b.wants(0) ? b.gradient(0) : Value(), Value(), b.wants(2) ? gather(b.gradient(0), b.input(1), b.attributes().integer("axis")) : Value()};
}

/// What one work-item of scatter_add.cl owns.
struct Share {
  std::int64_t columns;              // of one work-item
  std::int64_t items;                // that would fill the device
  decltype(range_of_places)* range;  // of the work-items
};

/// Adds the updates, an input, to the output at the indices, input 1.
void add_updates(const Launch& l, int updates, const Share& share) {
  const Rows r = rows_of("scatter_add", l.out_shape(0), l.in_shape(1), l.attributes());
  if (r.count == 0) return;
  const std::int64_t column_blocks = ceil_div(r.inner, share.columns);
  const std::int64_t row_blocks = std::clamp<std::int64_t>(share.items / (column_blocks * r.outer), 1, r.n);
  const std::int64_t row_block = ceil_div(r.n, row_blocks);
  const std::int64_t part = std::clamp<std::int64_t>(l.profile().longest_loop / (share.columns + 1), 1, r.count);
  for (std::int64_t begin = 0; begin < r.count; begin += part)
    l.run("any/scatter_add.cl", "scatter_add", share.range({column_blocks, ceil_div(r.n, row_block), r.outer}, l.profile()),
          {l.in(1), l.in(updates), l.out(0), l.error_word(), r.outer, r.n, r.count, r.inner, row_block, share.columns, begin, std::min(begin + part, r.count)},
          "-DT=" + std::string(opencl_name(l.out_spec(0).dtype)) + index_option(l.in_spec(1)));
}

/// y holds x already where it has taken over its memory.
void scatter_add_launch(const Launch& l, const Share& share) {
  if (l.out_spec(0).elements() == 0) return;
  const opencl::Region &x = l.in(0), &y = l.out(0);
  if (x.block != y.block || x.offset != y.offset) l.device().copy(x, y);
  add_updates(l, 2, share);
}

Specs gather_gradient_infer(const Specs& in, const Attributes& a) {
  check_float32("gather_gradient", "dy", in[0]);
  const Spec x{a.shape("shape"), in[0].dtype};
  check_shape("gather_gradient", "dy", in[0], gathered_shape("gather_gradient", x, in[1], a));
  return {x};
}

void gather_gradient_reference(const HostCall& c) {
  const auto dy = c.in<double>(0);
  const auto dx = c.out<double>(0);
  std::fill(dx.begin(), dx.end(), 0.0);
  each_gathered("gather_gradient", rows_of("gather_gradient", c.out_shape(0), c.in_shape(1), c.attributes()), c.integer(1),
                [&](std::size_t to, std::size_t from) { dx[to] += dy[from]; });
}

void gather_gradient_launch(const Launch& l, const Share& share) {
  if (l.out_spec(0).elements() == 0) return;
  const double zero = 0;
  l.device().fill(l.out(0), bytes_from_numbers(DType::float32, std::span(&zero, 1)));
  add_updates(l, 0, share);
}

Specs one_hot_infer(const Specs& in, const Attributes& a) {
  check_integer("one_hot", "indices", in[0]);
  const DType dtype = a.dtype("dtype");
  if (a.integer("classes") < 0) throw ShapeError(fmt::format("one_hot: classes is {}; accepted: 0 or more", a.integer("classes")));
  Shape shape = in[0].shape;
  shape.push_back(a.integer("classes"));
  return {{shape, dtype}};
}

template <class T>
void one_hot_cells(const HostCall& c) {
  const std::int64_t classes = c.attributes().integer("classes");
  const auto y = c.out<T>(0);
  std::fill(y.begin(), y.end(), T{});
  std::int64_t row = 0;
  for (std::int64_t index : c.integer(0)) y[at(classes * row++ + checked_index("one_hot", index, classes))] = 1;
}

void one_hot_launch(Launch& l) {
  const std::int64_t count = l.in_spec(0).elements(), classes = l.attributes().integer("classes");
  l.run("any/gather.cl", "one_hot", range_of_places({classes, count, 1}, l.profile()), {l.in(0), l.out(0), l.error_word(), count, classes},
        type_options(l.out_spec(0).dtype) + index_option(l.in_spec(0)));
}

std::vector<Variant> gather_variants() {
  return {{.name = "rows", .doc = "a block of rows for each work-item", .target = Target::cpu, .launch = gather_rows_launch},
          {.name = "items", .doc = "one work-item an element", .launch = gather_items_launch}};
}

template <void (*launch)(const Launch&, const Share&)>
std::vector<Variant> adding_variants() {
  return {{.name = "column_blocks",
           .doc = "a block of columns for each work-item",
           .target = Target::cpu,
           .launch =
               [](Launch& l) {
                 launch(l, {kColumns, 8 * l.profile().compute_units, range_of_blocks});
               }},
          {.name = "columns", .doc = "a column, or a part of it, for each work-item", .launch = [](Launch& l) {
             launch(l, {1, 64 * l.profile().compute_units, range_of_places});
           }}};
}

Attributes along(std::int64_t axis) { return {{"axis", axis}}; }
Attributes along(std::int64_t axis, const Shape& shape) { return {{"axis", axis}, {"shape", shape}}; }

}  // namespace

const OpDef& gather_def() {
  static const OpDef def{
      .name = "gather",
      .doc = "The elements of an axis by index: the axis is replaced by the axes of the indices.",
      .inputs = {"x", "indices"},
      .attributes = {{"axis", Type::integer, "indexed axis, -rank..rank-1"}},
      .infer = gather_infer,
      .cost =
          [](const Problem& p) {
            return Cost{0, 2 * p.outputs[0].bytes() + p.inputs[1].bytes()};
          },
      .reference = gather_reference,
      .gradient = gather_gradient,
      .gradient_reads = {inputs(1), nothing},
      .looks_up = true,
      .variants = gather_variants(),
      .samples =
          [] {
            return also_in_two_bytes({{{f32({7, 5}), i64({4})}, along(0), {Fill{}, integers(0, 7)}},
                                      {{f32({33, 17}), i32({3, 65})}, along(0), {Fill{}, integers(0, 33)}},
                                      {{f32({2, 5, 3}), i32({2, 4})}, along(1), {Fill{}, integers(0, 5)}},
                                      {{f32({3, 16}), i64({})}, along(-1), {Fill{}, integers(0, 16)}},
                                      {{f32({3, 2}), i32({0})}, along(0), {Fill{}, integers(0, 3)}},
                                      {{i64({6}), i64({9})}, along(0), {integers(-9, 9), integers(0, 6)}},
                                      {{b8({6, 2}), i32({9})}, along(0), {Fill{}, integers(0, 6)}}},
                                     {1, 2});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({3, 2}), f32({4})}, along(0), "gather: indices is float32 [4]; accepted: int32 or int64"},
                                         {{f32({3, 2}), i32({4})}, along(2), "gather: axis 2 is out of range for x [3, 2]; accepted: -2..1"}};
          },
  };
  return def;
}

const OpDef& gather_gradient_def() {
  static const OpDef def{
      .name = "gather_gradient",
      .doc = "Zeros, with dy added at the indices of an axis, in the order of dy: the gradient of gather.",
      .inputs = {"dy", "indices"},
      .attributes = {{"axis", Type::integer, "indexed axis of the result, -rank..rank-1"}, {"shape", Type::shape, "of the result"}},
      .infer = gather_gradient_infer,
      .cost =
          [](const Problem& p) {
            return Cost{p.inputs[0].elements(), p.outputs[0].bytes() + 3 * p.inputs[0].bytes() + p.inputs[1].bytes()};
          },
      .reference = gather_gradient_reference,
      .gradient = [](const Backward& b) -> Values {
        return {gather(b.gradient(0), b.input(1), b.attributes().integer("axis")), Value()};
      },
      .gradient_reads = {inputs(1), nothing},
      .variants = adding_variants<gather_gradient_launch>(),
      .samples =
          [] {
            return std::vector<Sample>{{{f32({4, 5}), i64({4})}, along(0, {7, 5}), {Fill{}, integers(0, 7)}},
                                       {{f32({3, 65, 17}), i32({3, 65})}, along(0, {33, 17}), {Fill{}, integers(0, 33)}},
                                       {{f32({33, 65}), i32({33})}, along(-2, {5, 65}), {Fill{}, integers(0, 5)}},
                                       {{f32({2, 2, 4, 3}), i32({2, 4})}, along(1, {2, 5, 3}), {Fill{}, integers(0, 5)}},
                                       {{f32({16}), i64({16})}, along(0, {1}), {Fill{}, integers(0, 1)}},
                                       {{f32({0, 2}), i32({0})}, along(0, {3, 2}), {Fill{}, integers(0, 3)}}};
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({4, 3}), i32({4})}, along(0, {3, 2}), "gather_gradient: dy is [4, 3]; accepted: [4, 2]"},
                                         {{{Shape{4}, DType::bfloat16}, i32({4})}, along(0, {3}), "gather_gradient: dy is bfloat16 [4]; accepted: float32"}};
          },
  };
  return def;
}

const OpDef& scatter_add_def() {
  static const OpDef def{
      .name = "scatter_add",
      .doc = "x with updates added at the indices of an axis, in the order of the updates.",
      .inputs = {"x", "indices", "updates"},
      .attributes = {{"axis", Type::integer, "indexed axis of x, -rank..rank-1"}},
      .infer = scatter_add_infer,
      .cost =
          [](const Problem& p) {
            return Cost{p.inputs[2].elements(), 2 * p.inputs[0].bytes() + 3 * p.inputs[2].bytes() + p.inputs[1].bytes()};
          },
      .reference = scatter_add_reference,
      .gradient = scatter_add_gradient,
      .gradient_reads = {nothing, nothing, inputs(1)},
      .may_reuse = {{0, 0}},
      .variants = adding_variants<scatter_add_launch>(),
      .samples =
          [] {
            return std::vector<Sample>{{{f32({7, 5}), i64({4}), f32({4, 5})}, along(0), {Fill{}, integers(0, 7), Fill{}}},
                                       {{f32({5, 65}), i32({33}), f32({33, 65})}, along(0), {Fill{}, integers(0, 5), Fill{}}},
                                       {{f32({2, 5, 3}), i32({2, 4}), f32({2, 2, 4, 3})}, along(1), {Fill{}, integers(0, 5), Fill{}}},
                                       {{f32({64}), i64({31}), f32({31})}, along(0), {Fill{}, integers(0, 64), Fill{}}},
                                       {{f32({3, 2}), i32({0}), f32({0, 2})}, along(0), {Fill{}, integers(0, 3), Fill{}}},
                                       {{i64({3}), i64({16}), i64({16})}, along(0), {integers(-9, 9), integers(0, 3), integers(-9, 9)}}};
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({3, 2}), i32({4}), f32({4, 3})}, along(0), "scatter_add: updates is [4, 3]; accepted: [4, 2]"},
                                         {{f32({3, 2}), i32({4}), i32({4, 2})},
                                          along(0),
                                          "scatter_add: float32 [3, 2] and int32 [4, 2] differ in element type; accepted: equal types, cast one"},
                                         {{b8({3}), i32({4}), b8({4})}, along(0), "scatter_add: x is bool [3]; accepted: float32, int32 or int64"},
                                         {{{Shape{3}, DType::bfloat16}, i32({4}), {Shape{4}, DType::bfloat16}},
                                          along(0),
                                          "scatter_add: x is bfloat16 [3]; accepted: float32, int32 or int64"}};
          },
  };
  return def;
}

const OpDef& one_hot_def() {
  static const OpDef def{
      .name = "one_hot",
      .doc = "A new last axis with 1 at the index, 0 elsewhere.",
      .inputs = {"indices"},
      .attributes = {{"classes", Type::integer, "extent of the new axis"}, {"dtype", Type::dtype, "of the result"}},
      .infer = one_hot_infer,
      .cost =
          [](const Problem& p) {
            return Cost{0, p.inputs[0].bytes() + p.outputs[0].bytes()};
          },
      .reference = [](const HostCall& c) { is_floating(c.out_spec(0).dtype) ? one_hot_cells<double>(c) : one_hot_cells<std::int64_t>(c); },
      .variants = {{.name = "items", .doc = "one work-item an element", .launch = one_hot_launch}},
      .samples =
          [] {
            const auto into = [](std::int64_t classes, DType dtype) { return Attributes{{"classes", classes}, {"dtype", dtype}}; };
            return std::vector<Sample>{{{i32({17})}, into(10, DType::float32), {integers(0, 10)}}, {{i64({3, 5})}, into(65, DType::int64), {integers(0, 65)}},
                                       {{i64({7})}, into(3, DType::float16), {integers(0, 3)}},    {{i64({7})}, into(3, DType::bfloat16), {integers(0, 3)}},
                                       {{i32({})}, into(1, DType::boolean), {integers(0, 1)}},     {{i64({0})}, into(4, DType::int32), {integers(0, 4)}}};
          },
      .rejected =
          [] {
            return std::vector<Rejected>{
                {{f32({3})}, {{"classes", std::int64_t{2}}, {"dtype", DType::float32}}, "one_hot: indices is float32 [3]; accepted: int32 or int64"},
                {{i32({3})}, {{"classes", std::int64_t{-1}}, {"dtype", DType::float32}}, "one_hot: classes is -1; accepted: 0 or more"}};
          },
  };
  return def;
}

Value gather(Value x, Value indices, std::int64_t axis) { return apply(gather_def(), list(std::move(x), std::move(indices)), along(axis))[0]; }
Value gather_gradient(Value dy, Value indices, const Shape& shape, std::int64_t axis, const Value& into) {
  return apply(gather_gradient_def(), list(std::move(dy), std::move(indices)), along(axis, shape), std::span(&into, 1))[0];
}
Value scatter_add(Value x, Value indices, Value updates, std::int64_t axis) {
  return apply(scatter_add_def(), list(std::move(x), std::move(indices), std::move(updates)), along(axis))[0];
}
Value one_hot(Value indices, std::int64_t classes, DType dtype) {
  return apply(one_hot_def(), list(std::move(indices)), {{"classes", classes}, {"dtype", dtype}})[0];
}

}  // namespace gemel::inline ops
