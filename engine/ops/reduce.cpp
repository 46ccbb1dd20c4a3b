// Reductions over axes.
#include <algorithm>

#include "engine/ops/common.h"
#include "engine/ops/ops.h"

namespace gemel {
namespace {

Specs sum_infer(const Specs& in, const Attributes& a) {
  const auto axes = normalised_axes("sum", in[0].shape, a.integers("axes"));
  return {{reduced_shape(in[0].shape, axes, a.boolean("keep")), in[0].dtype}};
}

template <class T>
void sum_cells(const HostCall& c, const Shape& kept) {
  const auto y = c.out<T>(0);
  const auto x = c.in<T>(0);
  std::fill(y.begin(), y.end(), T{});
  walk<1>(c.in_shape(0), {broadcast_strides(kept, c.in_shape(0))},
          [&](std::int64_t i, const auto& offset) { y[at(offset[0])] += x[at(i)]; });
}

void sum_reference(const HostCall& c) {
  const Shape kept = reduced_shape(c.in_shape(0), normalised_axes("sum", c.in_shape(0), c.attributes().integers("axes")), true);
  if (is_floating(c.in_spec(0).dtype))
    sum_cells<double>(c, kept);
  else
    sum_cells<std::int64_t>(c, kept);
}

Values sum_gradient(const Backward& b) {
  const Shape& shape = b.input_shape(0);
  const Shape kept = reduced_shape(shape, normalised_axes("sum", shape, b.attributes().integers("axes")), true);
  return {broadcast_to(reshape(b.gradient(0), kept), shape)};
}

/// Axes as alternating runs: kept and reduced neighbours merge. [outer, reduced, inner] where that suffices.
struct Runs {
  std::int64_t outer = 1, reduced = 1, inner = 1;
  bool possible = true;
};
Runs runs_of(const Problem& p) {
  const Shape& shape = p.inputs[0].shape;
  const auto axes = normalised_axes("sum", shape, p.attributes.integers("axes"));
  Runs r;
  int stage = 0;  // 0: before the reduced axes, 1: within, 2: behind
  for (int k = 0; k < shape.rank(); ++k) {
    const bool gone = std::find(axes.begin(), axes.end(), k) != axes.end();
    if (shape[k] == 1) continue;
    if (gone && stage == 0) stage = 1;
    if (!gone && stage == 1) stage = 2;
    if (gone && stage == 2) r.possible = false;
    (stage == 0 ? r.outer : stage == 1 ? r.reduced : r.inner) *= shape[k];
  }
  return r;
}

const char* unless_one_run(const Problem& p, const opencl::DeviceProfile&) {
  return runs_of(p).possible ? nullptr : "the reduced axes are not neighbours";
}

void launch_runs(Launch& l) {
  const Runs r = runs_of(l.problem());
  l.run("reduce.cl", "sum_runs", opencl::range1(round_up(r.outer * r.inner, 64), 64), {l.in(0), l.out(0), r.outer, r.reduced, r.inner},
        "-DT=" + std::string(opencl_name(l.in_spec(0).dtype)));
}

/// Any axes: the kept ones first, then the reduced ones, each with its stride.
void launch_any(Launch& l) {
  const Shape& shape = l.in_shape(0);
  const auto axes = normalised_axes("sum", shape, l.attributes().integers("axes"));
  const Shape strides = row_major_strides(shape);
  std::vector<opencl::Argument> arguments{l.in(0), l.out(0), l.out_spec(0).elements()};
  for (bool reduced : {false, true}) {
    std::vector<std::pair<std::int64_t, std::int64_t>> walked;  // extent, stride; innermost first
    for (int k = shape.rank() - 1; k >= 0; --k)
      if ((std::find(axes.begin(), axes.end(), k) != axes.end()) == reduced) walked.emplace_back(shape[k], strides[k]);
    walked.resize(Shape::kMaxRank, {1, 0});
    for (const auto& [extent, stride] : walked) {
      arguments.emplace_back(extent);
      arguments.emplace_back(stride);
    }
  }
  l.device().run(l.device().kernel("reduce.cl", "sum_any", "-DT=" + std::string(opencl_name(l.in_spec(0).dtype))),
                 opencl::range1(round_up(l.out_spec(0).elements(), 64), 64), arguments);
}

}  // namespace

const OpDef& sum_def() {
  static const OpDef def{
      .name = "sum",
      .doc = "Sum over axes.",
      .inputs = {"x"},
      .attributes = {{"axes", Type::integers, "reduced axes; all where none are given"}, {"keep", Type::boolean, "keep them with extent 1"}},
      .infer = sum_infer,
      .cost = [](const Problem& p) { return Cost{p.inputs[0].elements(), p.inputs[0].bytes() + p.outputs[0].bytes()}; },
      .reference = sum_reference,
      .gradient = sum_gradient,
      .gradient_reads = {nothing},
      .variants = {{"runs", "one work-item a sum over one run of neighbouring axes", unless_one_run,
                    [](const Problem&, const opencl::DeviceProfile&) { return 1; }, nullptr, launch_runs},
                   {"any", "one work-item a sum over any axes", never_declines, nullptr, nullptr, launch_any}},
      .samples = [] {
        const auto over = [](Axes axes, bool keep) { return Attributes{{"axes", std::move(axes)}, {"keep", keep}}; };
        return std::vector<Sample>{{{f32({3, 5})}, over({}, false)},        {{f32({3, 5})}, over({-1}, true)},
                                   {{f32({65, 33})}, over({0}, false)},     {{f32({2, 3, 4, 5})}, over({0, 2}, true)},
                                   {{f32({4, 1, 6})}, over({0, 1}, false)}, {{f32({0, 3})}, over({0}, false)},
                                   {{f32({})}, over({}, false)},            {{i64({7, 2})}, over({1}, false), {integers(-9, 9)}},
                                   {{f32({17, 31, 16})}, over({1}, false)}};
      },
      .rejected = [] {
        return std::vector<Rejected>{{{f32({3, 5})}, {{"axes", Axes{2}}, {"keep", false}}, "sum: axis 2 is out of range for x [3, 5]; accepted: -2..1"},
                                     {{f32({3, 5})}, {{"axes", Axes{0, -2}}, {"keep", false}},
                                      "sum: an axis is given twice; accepted: each axis of x [3, 5] once"}};
      }};
  return def;
}

Value sum(Value x, const Axes& axes, Keep keep) {
  return apply(sum_def(), list(std::move(x)), {{"axes", axes}, {"keep", keep == Keep::yes}})[0];
}

Value sum_to(Value x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Axes axes;
  const int lead = x.shape().rank() - shape.rank();
  for (int k = 0; k < x.shape().rank(); ++k)
    if (k < lead || (shape[k - lead] == 1 && x.shape()[k] != 1)) axes.push_back(k);
  return reshape(axes.empty() ? std::move(x) : sum(std::move(x), axes, Keep::yes), shape);
}

}  // namespace gemel
