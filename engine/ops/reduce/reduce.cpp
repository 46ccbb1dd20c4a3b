// Reductions over axes.
#include "engine/ops/reduce/reduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/ops/elementwise/elementwise_record.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

template <Literal name, Takes takes>
Specs infer(const Specs& in, const Attributes& a) {
  check_takes<takes>(name.text, "x", in[0]);
  const auto axes = normalised_axes(name.text, in[0].shape, a.integers("axes"));
  return {{reduced_shape(in[0].shape, axes, a.boolean("keep")), in[0].dtype}};
}

Specs max_infer(const Specs& in, const Attributes& a) {
  const Specs out = infer<"max", Takes::numbers>(in, a);
  if (reduced_count(in[0].shape, normalised_axes("max", in[0].shape, a.integers("axes"))) == 0)
    throw ShapeError(fmt::format("max: x {} has no elements along the reduced axes; accepted: at least one", to_string(in[0].shape)));
  return out;
}

/// The shape of x with the reduced axes kept as extents of 1.
Shape kept_shape(const char* op, const Shape& shape, const Attributes& a) { return reduced_shape(shape, normalised_axes(op, shape, a.integers("axes")), true); }

/// Joins every element of x to its place in y; `joined(y, x, whether y is still unset)` gives the new y.
template <class T, class F>
void join_cells(const HostCall& c, const char* op, F joined) {
  const auto y = c.out<T>(0);
  const auto x = c.in<T>(0);
  std::vector<char> unset(y.size(), 1);
  std::fill(y.begin(), y.end(), T{});
  walk<1>(c.in_shape(0), {broadcast_strides(kept_shape(op, c.in_shape(0), c.attributes()), c.in_shape(0))}, [&](std::int64_t i, const auto& offset) {
    const std::size_t o = at(offset[0]);
    y[o] = joined(y[o], x[at(i)], unset[o] != 0);
    unset[o] = 0;
  });
}

template <class F>
void join_numbers(const HostCall& c, const char* op, F joined) {
  if (is_floating(c.in_spec(0).dtype))
    join_cells<double>(c, op, joined);
  else
    join_cells<std::int64_t>(c, op, joined);
}

void sum_reference(const HostCall& c) {
  join_numbers(c, "sum", [](auto total, auto x, bool) { return total + x; });
}

void mean_reference(const HostCall& c) {
  join_cells<double>(c, "mean", [](double total, double x, bool) { return total + x; });
  const auto count = reduced_count(c.in_shape(0), normalised_axes("mean", c.in_shape(0), c.attributes().integers("axes")));
  for (double& y : c.out_real(0)) y /= static_cast<double>(count);
}

void max_reference(const HostCall& c) {
  join_numbers(c, "max", [](auto best, auto x, bool unset) { return unset || x > best || x != x ? x : best; });
}

Values sum_gradient(const Backward& b) { return {broadcast_to(reshape(b.gradient(0), kept_shape("sum", b.input_shape(0), b.attributes())), b.input_shape(0))}; }

Values mean_gradient(const Backward& b) {
  const Shape& shape = b.input_shape(0);
  const std::int64_t count = reduced_count(shape, normalised_axes("mean", shape, b.attributes().integers("axes")));
  const Value share = b.gradient(0) * (1 / static_cast<double>(std::max<std::int64_t>(1, count)));
  return {broadcast_to(reshape(share, kept_shape("mean", shape, b.attributes())), shape)};
}

Values max_gradient(const Backward& b) {
  const Shape kept = kept_shape("max", b.input_shape(0), b.attributes());
  const Value best = cast(equal(b.input(0), reshape(b.output(0), kept)), b.input_spec(0).dtype);
  return {best * (reshape(b.gradient(0), kept) / sum_to(best, kept))};
}

Cost cost(const Problem& p) { return {p.inputs[0].elements(), p.inputs[0].bytes() + p.outputs[0].bytes()}; }

Attributes over(Axes axes, bool keep) { return {{"axes", std::move(axes)}, {"keep", keep}}; }

/// Samples for every reduction: every layout of the axes, lengths about the lanes, blocks and groups of the kernels.
template <Takes takes, Fill fill>
std::vector<Sample> samples() {
  std::vector<Sample> out{{{f32({3, 5})}, over({}, false)},
                          {{f32({3, 65})}, over({-1}, true)},
                          {{f32({65, 33})}, over({0}, false)},
                          {{f32({2, 3, 4, 5})}, over({0, 2}, true)},
                          {{f32({4, 1, 6})}, over({0, 1}, false)},
                          {{f32({3, 0})}, over({0}, false)},
                          {{f32({})}, over({}, false)},
                          {{f32({5, 31, 16})}, over({1}, false)},
                          {{f32({1100, 17})}, over({0}, false)},
                          {{f32({2, 2500})}, over({1}, false)}};
  for (Sample& s : out) s.fills = {fill};
  if (takes == Takes::numbers) out.push_back({{i64({7, 2})}, over({1}, false), {integers(-9, 9)}});
  return also_in_two_bytes(std::move(out), {1, 2, 3, 8, 9});
}

template <Literal name, Takes takes>
std::vector<Rejected> rejected() {
  const std::string op = name.text;
  std::vector<Rejected> out{{{f32({3, 5})}, over({2}, false), op + ": axis 2 is out of range for x [3, 5]; accepted: -2..1"},
                            {{f32({3, 5})}, over({0, -2}, false), op + ": an axis is given twice; accepted: each axis of x [3, 5] once"}};
  for (const Spec& bad : refused<takes>()) out.push_back({{bad}, over({}, false), op + ": x is " + to_string(bad) + "; accepted: " + kAccepted<takes>});
  return out;
}

OpDef reduction(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .inputs = {"x"},
          .attributes = {{"axes", Type::integers, "reduced axes; all where none are given"}, {"keep", Type::boolean, "keep them with extent 1"}},
          .cost = cost};
}

/// x as [outer, n, inner] about argmax's axis.
Runs argmax_runs(const Shape& shape, const Attributes& a) {
  const int axis = checked_axis("argmax", "x", shape, a.integer("axis"));
  return {shape.product(0, axis), shape[axis], shape.product(axis + 1, shape.rank())};
}

Specs argmax_infer(const Specs& in, const Attributes& a) {
  check_takes<Takes::numbers>("argmax", "x", in[0]);
  const int axis = checked_axis("argmax", "x", in[0].shape, a.integer("axis"));
  if (in[0].shape[axis] == 0) throw ShapeError(fmt::format("argmax: x {} has no elements along axis {}; accepted: at least one", to_string(in[0].shape), axis));
  return {{reduced_shape(in[0].shape, {axis}, false), DType::int64}};
}

template <class T>
void argmax_cells(const HostCall& c) {
  const Runs r = argmax_runs(c.in_shape(0), c.attributes());
  const auto x = c.in<T>(0);
  const auto y = c.out_integer(0);
  for (std::int64_t i = 0; i < r.outer * r.inner; ++i) {
    const auto element = [&](std::int64_t j) { return x[at((i / r.inner * r.reduced + j) * r.inner + i % r.inner)]; };
    std::int64_t best = 0;
    for (std::int64_t j = 1; j < r.reduced; ++j) {
      const bool first_nan = element(j) != element(j) && element(best) == element(best);
      if (element(j) > element(best) || first_nan) best = j;
    }
    y[at(i)] = best;
  }
}

void argmax_launch(Launch& l) {
  const Runs r = argmax_runs(l.in_shape(0), l.attributes());
  l.run("any/argmax.cl", "argmax", range_of_places({r.inner, r.outer, 1}, l.profile()), {l.in(0), l.out(0), r.outer, r.reduced, r.inner},
        type_options(l.in_spec(0).dtype));
}

}  // namespace

const OpDef& sum_def() {
  static const OpDef def = [] {
    OpDef d = reduction("sum", "Sum over axes.");
    d.infer = infer<"sum", Takes::numbers>;
    d.reference = sum_reference;
    d.gradient = sum_gradient;
    d.gradient_reads = {nothing};
    d.variants = reduce_variants<Reduction::sum>();
    d.samples = [] {
      std::vector<Sample> out = samples<Takes::numbers, Fill{}>();
      out.push_back({{f32({0, 3})}, over({0}, false)});
      return out;
    };
    d.rejected = rejected<"sum", Takes::numbers>;
    return d;
  }();
  return def;
}

const OpDef& mean_def() {
  static const OpDef def = [] {
    OpDef d = reduction("mean", "Mean over axes.");
    d.infer = infer<"mean", Takes::floating>;
    d.reference = mean_reference;
    d.gradient = mean_gradient;
    d.gradient_reads = {nothing};
    d.variants = reduce_variants<Reduction::mean>();
    d.samples = samples<Takes::floating, Fill{}>;
    d.rejected = rejected<"mean", Takes::floating>;
    return d;
  }();
  return def;
}

const OpDef& max_def() {
  static const OpDef def = [] {
    OpDef d = reduction("max", "Maximum over axes; NaN where one is. Equal maxima share the gradient.");
    d.infer = max_infer;
    d.reference = max_reference;
    d.gradient = max_gradient;
    d.gradient_reads = {inputs(0) | outputs(0)};
    d.variants = reduce_variants<Reduction::maximum>();
    d.samples = samples<Takes::numbers, distinct()>;
    d.rejected = [] {
      std::vector<Rejected> out = rejected<"max", Takes::numbers>();
      out.push_back({{f32({0, 3})}, over({0}, false), "max: x [0, 3] has no elements along the reduced axes; accepted: at least one"});
      return out;
    };
    return d;
  }();
  return def;
}

const OpDef& argmax_def() {
  static const OpDef def{
      .name = "argmax",
      .doc = "Index of the first maximum along an axis, as int64; NaN counts as the largest.",
      .inputs = {"x"},
      .attributes = {{"axis", Type::integer, "searched axis, which is dropped"}},
      .infer = argmax_infer,
      .cost = cost,
      .reference = [](const HostCall& c) { is_floating(c.in_spec(0).dtype) ? argmax_cells<double>(c) : argmax_cells<std::int64_t>(c); },
      .variants = {{.name = "items", .doc = "one work-item an output element", .launch = argmax_launch}},
      .samples =
          [] {
            const auto along = [](std::int64_t axis) { return Attributes{{"axis", axis}}; };
            return also_in_two_bytes({{{f32({3, 10})}, along(-1)},
                                      {{f32({17, 65})}, along(0)},
                                      {{f32({2, 5, 3})}, along(1)},
                                      {{f32({4, 1})}, along(1)},
                                      {{f32({0, 3})}, along(1)},
                                      {{i32({5, 33})}, along(1), {integers(-3, 3)}}},
                                     {1});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{
                {{f32({3, 0})}, {{"axis", std::int64_t{1}}}, "argmax: x [3, 0] has no elements along axis 1; accepted: at least one"},
                {{b8({3})}, {{"axis", std::int64_t{0}}}, "argmax: x is bool [3]; accepted: float32, float16, bfloat16, int32 or int64"}};
          },
  };
  return def;
}

Value sum(Value x, const Axes& axes, Keep keep) { return apply(sum_def(), list(std::move(x)), over(axes, keep == Keep::yes))[0]; }
Value mean(Value x, const Axes& axes, Keep keep) { return apply(mean_def(), list(std::move(x)), over(axes, keep == Keep::yes))[0]; }
Value max(Value x, const Axes& axes, Keep keep) { return apply(max_def(), list(std::move(x)), over(axes, keep == Keep::yes))[0]; }
Value argmax(Value x, std::int64_t axis) { return apply(argmax_def(), list(std::move(x)), {{"axis", axis}})[0]; }

Value sum_to(Value x, const Shape& shape, const Value& into) {
  if (x.shape() == shape) return x;
  Axes axes;
  const int lead = x.shape().rank() - shape.rank();
  for (int k = 0; k < x.shape().rank(); ++k)
    if (k < lead || (shape[k - lead] == 1 && x.shape()[k] != 1)) axes.push_back(k);
  if (axes.empty()) return reshape(std::move(x), shape);
  const Spec kept{reduced_shape(x.shape(), axes, true), x.dtype()};
  const Value place = into ? into.view(kept, 0) : Value();
  return reshape(apply(sum_def(), list(std::move(x)), over(axes, true), std::span(&place, 1))[0], shape);
}

}  // namespace gemel::inline ops
