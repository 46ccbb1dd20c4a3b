// Softmax:   y[i] = exp(x[i] - max x) / sum_j exp(x[j] - max x), and its logarithm.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/ops/common.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

constexpr const char* kSoftmax = "softmax";
constexpr const char* kLogSoftmax = "log_softmax";
constexpr std::int64_t kChunkElements = 4096;  // of one work-item on a CPU
constexpr std::int64_t kGroup = 64;            // GROUP in the kernels

/// x as [outer, n, inner], normalised along n.
struct Rows {
  std::int64_t outer, n, inner;
};
Rows rows_of(const Shape& shape, const Attributes& a) {
  const int axis = checked_axis(kSoftmax, "x", shape, a.integer("axis"));
  return {shape.product(0, axis), shape[axis], shape.product(axis + 1, shape.rank())};
}

template <const char* const& name>
Specs infer(const Specs& in, const Attributes& a) {
  check_floating(name, "x", in[0]);
  checked_axis(name, "x", in[0].shape, a.integer("axis"));
  return {in[0]};
}

/// y = finish(x - max x, sum exp(x - max x))
template <class F>
void reference(const HostCall& c, F finish) {
  const Rows r = rows_of(c.in_shape(0), c.attributes());
  const auto x = c.real(0);
  const auto y = c.out_real(0);
  for (std::int64_t o = 0; o < r.outer; ++o)
    for (std::int64_t i = 0; i < r.inner; ++i) {
      const auto index = [&](std::int64_t j) { return at((o * r.n + j) * r.inner + i); };
      double top = -std::numeric_limits<double>::infinity(), total = 0;
      for (std::int64_t j = 0; j < r.n; ++j) top = std::max(top, x[index(j)]);
      for (std::int64_t j = 0; j < r.n; ++j) total += std::exp(x[index(j)] - top);
      for (std::int64_t j = 0; j < r.n; ++j) y[index(j)] = finish(x[index(j)] - top, total);
    }
}

Values gradient(const Backward& b) {  // dx = y (dy - sum(y dy))
  const Value y = b.output(0);
  return {y * (b.gradient(0) - sum(y * b.gradient(0), {b.attributes().integer("axis")}, Keep::yes))};
}

Values log_gradient(const Backward& b) {  // dx = dy - exp(y) sum(dy)
  return {b.gradient(0) - exp(b.output(0)) * sum(b.gradient(0), {b.attributes().integer("axis")}, Keep::yes)};
}

/// y = finish(x - max x, sum exp(x - max x)) in public operators.
template <class F>
Values composed(const Values& in, const Attributes& a, F finish) {
  if (in[0].elements() == 0) return {copy(in[0])};
  const Axes axis{a.integer("axis")};
  const Value x = cast(in[0], DType::float32), shifted = x - max(x, axis, Keep::yes).detached();  // what is taken off cancels
  return {cast(finish(shifted, sum(exp(shifted), axis, Keep::yes)), in[0].dtype())};
}

const char* unless_last_axis(const Problem& p, const opencl::DeviceProfile&) {
  return rows_of(p.inputs[0].shape, p.attributes).inner == 1 ? nullptr : "the axis is not the innermost";
}

std::int64_t row_length(const Problem& p, const opencl::DeviceProfile&) { return rows_of(p.inputs[0].shape, p.attributes).n; }
/// Along another axis the items of a group would read memory that lies apart.
int rank_of_groups(const Problem& p, const opencl::DeviceProfile& profile) { return unless_last_axis(p, profile) ? -1 : 0; }

std::int32_t logarithm(const Launch& l) { return l.problem().op.name == kLogSoftmax; }

void launch_rows(Launch& l) {
  const Rows r = rows_of(l.in_shape(0), l.attributes());
  if (r.n == 0) return;
  const std::int64_t chunk = ceil_div(kChunkElements, r.n);
  l.run("cpu/softmax.cl", "softmax_rows", opencl::range1(ceil_div(r.outer, chunk), 1), {l.in(0), l.out(0), r.outer, r.n, chunk, logarithm(l)},
        type_options(l.in_spec(0).dtype));
}
void launch_group(Launch& l) {
  const Rows r = rows_of(l.in_shape(0), l.attributes());
  if (r.n == 0) return;
  l.run("gpu/softmax.cl", "softmax_group", opencl::range2({r.outer * kGroup, std::min(r.inner, opencl::kMostGroups)}, {kGroup, 1}),
        {l.in(0), l.out(0), r.n, r.inner, logarithm(l)}, type_options(l.in_spec(0).dtype));
}
void launch_any(Launch& l) {
  const Rows r = rows_of(l.in_shape(0), l.attributes());
  if (r.n == 0) return;
  l.run("any/softmax.cl", "softmax_any", range_of_places({r.inner, r.outer, 1}, l.profile()), {l.in(0), l.out(0), r.outer, r.n, r.inner, logarithm(l)},
        type_options(l.in_spec(0).dtype));
}

std::vector<Variant> variants() {
  return {{.name = "rows",
           .doc = "a run of rows for each work-item, eight lanes wide",
           .target = Target::cpu,
           .declines = unless_last_axis,
           .longest_loop = row_length,
           .launch = launch_rows},
          {.name = "group_a_row",
           .doc = "a work-group a row along any axis, through local memory",
           .target = Target::gpu,
           .needs = {.group_size = kGroup},
           .rank = rank_of_groups,
           .launch = launch_group},
          {.name = "any_axis", .doc = "one work-item a row along any axis", .longest_loop = row_length, .launch = launch_any}};
}

std::vector<Sample> samples() {
  return also_in_two_bytes({{{f32({3, 10})}, {{"axis", -1}}},
                            {{f32({17, 65})}, {{"axis", 1}}},
                            {{f32({4, 5, 6})}, {{"axis", 1}}},
                            {{f32({2, 1})}, {{"axis", 1}}},
                            {{f32({0, 4})}, {{"axis", 1}}},
                            {{f32({33, 64})}, {{"axis", 0}}},
                            {{f32({2, 1000})}, {{"axis", -1}}},
                            {{f32({3, 0})}, {{"axis", 1}}}},
                           {1, 2});
}

template <const char* const& name>
std::vector<Rejected> rejected() {
  const std::string op = name;
  return {{{f32({32, 10})}, {{"axis", 3}}, op + ": axis 3 is out of range for x [32, 10]; accepted: -2..1"},
          {{i32({4})}, {{"axis", 0}}, op + ": x is int32 [4]; accepted: float32, float16 or bfloat16"}};
}

}  // namespace

const OpDef& softmax_def() {
  static const OpDef def{
      .name = kSoftmax,
      .doc = "Normalises exponentials along one axis.",
      .inputs = {"x"},
      .attributes = {{"axis", Type::integer, "normalised axis, -rank..rank-1"}},
      .infer = infer<kSoftmax>,
      .cost = per_element<5>,
      .reference = [](const HostCall& c) { reference(c, [](double d, double total) { return std::exp(d) / total; }); },
      .gradient = gradient,
      .gradient_reads = {outputs(0)},
      .composed = [](const Values& in, const Attributes& a) { return composed(in, a, [](const Value& d, const Value& total) { return exp(d) / total; }); },
      .variants = variants(),
      .samples = samples,
      .rejected = rejected<kSoftmax>,
  };
  return def;
}

const OpDef& log_softmax_def() {
  static const OpDef def{
      .name = kLogSoftmax,
      .doc = "The logarithm of softmax along one axis, without overflow.",
      .inputs = {"x"},
      .attributes = {{"axis", Type::integer, "normalised axis, -rank..rank-1"}},
      .infer = infer<kLogSoftmax>,
      .cost = per_element<5>,
      .reference = [](const HostCall& c) { reference(c, [](double d, double total) { return d - std::log(total); }); },
      .gradient = log_gradient,
      .gradient_reads = {outputs(0)},
      .composed = [](const Values& in, const Attributes& a) { return composed(in, a, [](const Value& d, const Value& total) { return d - log(total); }); },
      .variants = variants(),
      .samples = samples,
      .rejected = rejected<kLogSoftmax>,
  };
  return def;
}

Value softmax(Value x, int axis) { return apply(softmax_def(), list(std::move(x)), {{"axis", axis}})[0]; }
Value log_softmax(Value x, int axis) { return apply(log_softmax_def(), list(std::move(x)), {{"axis", axis}})[0]; }

}  // namespace gemel::inline ops
