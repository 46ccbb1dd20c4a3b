// Softmax:   y[i] = exp(x[i] - max x) / sum_j exp(x[j] - max x)
#include <cmath>
#include <limits>

#include "engine/ops/common.h"
#include "engine/ops/ops.h"

namespace gemel {
namespace {

/// x as [outer, n, inner], normalised along n.
struct Rows {
  std::int64_t outer, n, inner;
};
Rows rows_of(const Shape& shape, const Attributes& a) {
  const int axis = checked_axis("softmax", "x", shape, a.integer("axis"));
  return {shape.product(0, axis), shape[axis], shape.product(axis + 1, shape.rank())};
}

Specs infer(const Specs& in, const Attributes& a) {
  check_floating("softmax", "x", in[0]);
  checked_axis("softmax", "x", in[0].shape, a.integer("axis"));
  return {in[0]};
}

void reference(const HostCall& c) {
  const Rows r = rows_of(c.in_shape(0), c.attributes());
  const auto x = c.real(0);
  const auto y = c.out_real(0);
  for (std::int64_t o = 0; o < r.outer; ++o)
    for (std::int64_t i = 0; i < r.inner; ++i) {
      const auto index = [&](std::int64_t j) { return at((o * r.n + j) * r.inner + i); };
      double top = -std::numeric_limits<double>::infinity(), total = 0;
      for (std::int64_t j = 0; j < r.n; ++j) top = std::max(top, x[index(j)]);
      for (std::int64_t j = 0; j < r.n; ++j) total += std::exp(x[index(j)] - top);
      for (std::int64_t j = 0; j < r.n; ++j) y[index(j)] = std::exp(x[index(j)] - top) / total;
    }
}

Values gradient(const Backward& b) {  // dx = y (dy - sum(y dy))
  const Value y = b.output(0);
  return {y * (b.gradient(0) - sum(y * b.gradient(0), {b.attributes().integer("axis")}, Keep::yes))};
}

const char* unless_last_axis(const Problem& p, const opencl::DeviceProfile&) {
  return rows_of(p.inputs[0].shape, p.attributes).inner == 1 ? nullptr : "the axis is not the innermost";
}
int group_rank(const Problem&, const opencl::DeviceProfile& d) { return d.has_real_local_memory ? 2 : 0; }

void launch_group(Launch& l) {
  const Rows r = rows_of(l.in_shape(0), l.attributes());
  l.run("softmax.cl", "softmax_group", opencl::range1(r.n ? r.outer * 64 : 0, 64), {l.in(0), l.out(0), r.n});
}
void launch_any(Launch& l) {
  const Rows r = rows_of(l.in_shape(0), l.attributes());
  l.run("softmax.cl", "softmax_any", opencl::range1(r.n ? round_up(r.outer * r.inner, 16) : 0, 16), {l.in(0), l.out(0), r.outer, r.n, r.inner});
}

}  // namespace

const OpDef& softmax_def() {
  static const OpDef def{
      .name = "softmax",
      .doc = "Normalises exponentials along one axis.",
      .inputs = {"x"},
      .attributes = {{"axis", Type::integer, "normalised axis, -rank..rank-1"}},
      .infer = infer,
      .cost = per_element<5>,
      .reference = reference,
      .gradient = gradient,
      .gradient_reads = {outputs(0)},
      .variants = {{"group_a_row", "a work-group a row, through local memory", unless_last_axis, group_rank, nullptr, launch_group},
                   {"any_axis", "one work-item a row along any axis", never_declines,
                    [](const Problem&, const opencl::DeviceProfile&) { return 1; }, nullptr, launch_any}},
      .samples = [] {
        return std::vector<Sample>{{{f32({3, 10})}, {{"axis", -1}}},    {{f32({17, 65})}, {{"axis", 1}}}, {{f32({4, 5, 6})}, {{"axis", 1}}},
                                   {{f32({2, 1})}, {{"axis", 1}}},      {{f32({0, 4})}, {{"axis", 1}}},   {{f32({33, 64})}, {{"axis", 0}}},
                                   {{f32({2, 1000})}, {{"axis", -1}}}};
      },
      .rejected = [] {
        return std::vector<Rejected>{{{f32({32, 10})}, {{"axis", 3}}, "softmax: axis 3 is out of range for x [32, 10]; accepted: -2..1"},
                                     {{i32({4})}, {{"axis", 0}}, "softmax: x is int32 [4]; accepted: a floating type"}};
      }};
  return def;
}

Value softmax(Value x, int axis) { return apply(softmax_def(), list(std::move(x)), {{"axis", axis}})[0]; }

}  // namespace gemel
