// Cross-entropy of softmax(logits), fused, and its gradient; the formulas are in opencl/kernels/lib/ops/cross_entropy.clh.
// Legend: logits [N, C]; t the targets, (1 - smoothing) label + smoothing / C; p = softmax(logits).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

constexpr const char *kCpuFile = "cpu/cross_entropy.cl", *kGpuFile = "gpu/cross_entropy.cl";
constexpr const char* kForward = "cross_entropy";
constexpr const char* kBackward = "cross_entropy_backward";
constexpr std::int64_t kChunkElements = 4096;  // of one work-item on a CPU
constexpr std::int64_t kGroup = 64;            // GROUP in the kernels

/// What the rows' losses are divided by.
double divisor_of(const Attributes& a, std::int64_t rows) { return a.boolean("mean") ? static_cast<double>(rows) : 1; }

void check(const char* op, const Spec& logits, const Spec& labels, const Attributes& a) {
  check_float32(op, "logits", logits);
  check_rank(op, "logits", logits, 2);
  if (logits.shape[1] == 0) throw ShapeError(fmt::format("{}: logits is {}; accepted: at least one class", op, to_string(logits.shape)));
  const Shape rows{logits.shape[0]};
  const bool soft = labels.dtype == DType::float32 && labels.shape == logits.shape;
  if (!soft && !(is_integer(labels.dtype) && labels.shape == rows))
    throw ShapeError(
        fmt::format("{}: labels is {}; accepted: int32 or int64 {}, or float32 {}", op, to_string(labels), to_string(rows), to_string(logits.shape)));
  if (a.boolean("labelled_only") && (soft || a.boolean("mean")))
    throw ShapeError(fmt::format("{}: rows without a label are to be left out of {}; accepted: of a sum over rows with a class each", op,
                                 soft ? "rows of shares" : "a mean"));
  const double smoothing = a.real("smoothing");
  if (!(smoothing >= 0 && smoothing <= 1)) throw ShapeError(fmt::format("{}: smoothing {} is out of range; accepted: 0..1", op, smoothing));
}

Specs infer(const Specs& in, const Attributes& a) {
  check(kForward, in[0], in[1], a);
  return {f32({})};
}

Specs backward_infer(const Specs& in, const Attributes& a) {
  check_float32(kBackward, "dy", in[0]);
  check_shape(kBackward, "dy", in[0], Shape{});
  check(kBackward, in[1], in[2], a);
  return {in[1]};
}

/// One row on the host: its exponentials' sum and its targets; all 0 where it is left out.
struct HostRow {
  double top, total, mass;
  std::vector<double> target;
};
HostRow host_row(const HostCall& c, int logits, int labels, std::size_t r) {
  const auto n = at(c.in_shape(logits)[1]);
  const auto x = c.real(logits).subspan(r * n, n);
  const double smoothing = c.attributes().real("smoothing");
  HostRow row{*std::max_element(x.begin(), x.end()), 0, 0, std::vector<double>(n, smoothing / static_cast<double>(n))};
  for (double v : x) row.total += std::exp(v - row.top);
  if (is_floating(c.in_spec(labels).dtype)) {
    for (std::size_t j = 0; j < n; ++j) row.target[j] += (1 - smoothing) * c.real(labels)[r * n + j];
  } else {
    const std::int64_t label = c.integer(labels)[r];
    if (label < 0 && c.attributes().boolean("labelled_only")) return {row.top, row.total, 0, std::vector<double>(n, 0.0)};
    if (label < 0 || at(label) >= n) throw DataError(fmt::format("cross_entropy: label {} is out of range; accepted: 0..{}", label, n - 1));
    row.target[at(label)] += 1 - smoothing;
  }
  for (double t : row.target) row.mass += t;
  return row;
}

void reference(const HostCall& c) {
  const auto rows = at(c.in_shape(0)[0]), n = at(c.in_shape(0)[1]);
  const bool soft = is_floating(c.in_spec(1).dtype);
  double loss = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const HostRow row = host_row(c, 0, 1, r);
    for (std::size_t j = 0; j < n; ++j)
      if (soft || row.target[j] != 0) loss += row.target[j] * (std::log(row.total) - (c.real(0)[r * n + j] - row.top));  // another class may be impossible
  }
  c.out_real(0)[0] = loss / divisor_of(c.attributes(), c.in_shape(0)[0]);
}

void backward_reference(const HostCall& c) {
  const auto rows = at(c.in_shape(1)[0]), n = at(c.in_shape(1)[1]);
  const double step = c.real(0)[0] / divisor_of(c.attributes(), c.in_shape(1)[0]);
  for (std::size_t r = 0; r < rows; ++r) {
    const HostRow row = host_row(c, 1, 2, r);
    for (std::size_t j = 0; j < n; ++j) c.out_real(0)[r * n + j] = (std::exp(c.real(1)[r * n + j] - row.top) / row.total * row.mass - row.target[j]) * step;
  }
}

Value backward(Value dy, Value logits, Value labels, const Attributes& a) {
  return apply(cross_entropy_backward_def(), list(std::move(dy), std::move(logits), std::move(labels)), a)[0];
}

Values gradient(const Backward& b) {
  const double rows = divisor_of(b.attributes(), b.input_shape(0)[0]), smoothing = b.attributes().real("smoothing");
  Values out(2);
  if (b.wants(0)) out[0] = backward(b.gradient(0), b.input(0), b.input(1), b.attributes());
  if (b.wants(1)) out[1] = log_softmax(b.input(0)) * (b.gradient(0) * (-(1 - smoothing) / rows));
  return out;
}

/// 1 for each row that has a label, 0 for the others. @return float32 [N, 1]
Value labelled(const Value& labels) {
  const Value has = greater_equal(labels, full(labels.session(), {Shape{}, labels.dtype()}, 0));
  return reshape(cast(has, DType::float32), Shape{labels.elements(), 1});
}

/// With u the gradient of dx = (p mass - t) dy / N:
///   d dy = sum u (p mass - t) / N,   dx = p (u - sum_j p u) mass dy / N,   d label = (sum_j p u - u) (1 - smoothing) dy / N
Values backward_gradient(const Backward& b) {
  const Value& u = b.gradient(0);
  const double rows = divisor_of(b.attributes(), b.input_shape(1)[0]), smoothing = b.attributes().real("smoothing");
  Values out(3);
  if (b.wants(0)) out[0] = sum(u * backward(full(b.session(), f32({}), 1), b.input(1), b.input(2), b.attributes()));
  if (!b.wants(1) && !b.wants(2)) return out;
  const Value p = softmax(b.input(1)), along = sum(p * u, {1}, Keep::yes);
  if (b.wants(1)) {
    out[1] = p * (u - along) * (b.input(0) * (1 / rows));
    if (is_floating(b.input_spec(2).dtype)) out[1] = out[1] * (sum(b.input(2), {1}, Keep::yes) * (1 - smoothing) + smoothing);
    if (b.attributes().boolean("labelled_only")) out[1] = out[1] * labelled(b.input(2));
  }
  if (b.wants(2)) out[2] = (along - u) * (b.input(0) * ((1 - smoothing) / rows));
  return out;
}

// ---- in public operators

/// t [N, C]; 0 for a row that is left out.
Value targets_of(const Value& logits, const Value& labels, const Attributes& a) {
  const std::int64_t classes = logits.shape()[1];
  const double smoothing = a.real("smoothing");
  const bool soft = is_floating(labels.dtype());
  const Value shares = soft ? labels : one_hot(maximum(labels, full(labels.session(), {Shape{}, labels.dtype()}, 0)), classes);
  const Value t = shares * (1 - smoothing) + smoothing / static_cast<double>(classes);
  return a.boolean("labelled_only") ? t * labelled(labels) : t;
}

Values composed(const Values& in, const Attributes& a) {
  const Value t = targets_of(in[0], in[1], a), none = full(t.session(), f32({}), 0);
  Value terms = t * log_softmax(in[0]);
  if (!is_floating(in[1].dtype())) terms = where(equal(t, none), none, terms);  // another class may be impossible
  return {sum(terms) * (-1 / divisor_of(a, in[0].shape()[0]))};
}

Values composed_backward(const Values& in, const Attributes& a) {
  const Value t = targets_of(in[1], in[2], a);
  return {(softmax(in[1]) * sum(t, {1}, Keep::yes) - t) * (in[0] * (1 / divisor_of(a, in[1].shape()[0])))};
}

/// What all kernels of the file take last.
struct Sizes {
  std::int64_t rows, n, chunk;
  float keep, rest, divisor;
};
Sizes sizes_of(const Launch& l, int logits) {
  const Shape& shape = l.in_shape(logits);
  const double smoothing = l.attributes().real("smoothing");
  return {shape[0],
          shape[1],
          ceil_div(kChunkElements, shape[1]),
          static_cast<float>(1 - smoothing),
          static_cast<float>(smoothing / static_cast<double>(shape[1])),
          static_cast<float>(divisor_of(l.attributes(), shape[0]))};
}

std::string options_of(const Launch& l, const Spec& labels) {
  return fmt::format("-DLABEL={}{} -DLABELLED_ONLY={}", opencl_name(labels.dtype), is_floating(labels.dtype) ? " -DSOFT" : "",
                     int{l.attributes().boolean("labelled_only")});
}

/// By one group: of one work-item where the device's are small.
void launch_total(const Launch& l, const char* file, const Sizes& s, const std::string& options) {
  const std::int64_t group = l.profile().max_group_size < kGroup ? 1 : kGroup;
  l.run(file, "cross_entropy_total", opencl::range1(group, group), {l.workspace(), l.out(0), s.rows, s.divisor},
        group == kGroup ? options : options + " -DGROUP=1");
}
void launch_rows(Launch& l) {
  const Sizes s = sizes_of(l, 0);
  const std::string options = options_of(l, l.in_spec(1));
  l.run(kCpuFile, "cross_entropy_rows", opencl::range1(ceil_div(s.rows, s.chunk), 1),
        {l.in(0), l.in(1), l.workspace(), l.error_word(), s.rows, s.n, s.keep, s.rest, s.chunk}, options);
  launch_total(l, kCpuFile, s, options);
}
void launch_group(Launch& l) {
  const Sizes s = sizes_of(l, 0);
  const std::string options = options_of(l, l.in_spec(1));
  l.run(kGpuFile, "cross_entropy_group", opencl::range1(s.rows * kGroup, kGroup), {l.in(0), l.in(1), l.workspace(), l.error_word(), s.n, s.keep, s.rest},
        options);
  launch_total(l, kGpuFile, s, options);
}
void launch_backward_rows(Launch& l) {
  const Sizes s = sizes_of(l, 1);
  l.run(kCpuFile, "cross_entropy_backward_rows", opencl::range1(ceil_div(s.rows, s.chunk), 1),
        {l.in(0), l.in(1), l.in(2), l.out(0), s.rows, s.n, s.keep, s.rest, s.divisor, s.chunk}, options_of(l, l.in_spec(2)));
}
void launch_backward_group(Launch& l) {
  const Sizes s = sizes_of(l, 1);
  l.run(kGpuFile, "cross_entropy_backward_group", opencl::range1(s.rows * kGroup, kGroup),
        {l.in(0), l.in(1), l.in(2), l.out(0), s.rows, s.n, s.keep, s.rest, s.divisor}, options_of(l, l.in_spec(2)));
}

template <int logits>
std::int64_t classes_of(const Problem& p, const opencl::DeviceProfile&) {
  return p.inputs[logits].shape[1];
}

std::int64_t row_losses_bytes(const Problem& p, const opencl::DeviceProfile&) {
  return std::max<std::int64_t>(1, p.inputs[0].shape[0]) * static_cast<std::int64_t>(sizeof(float));
}

/// Samples of (logits, labels), with `before` in front of them.
std::vector<Sample> samples(const Specs& before) {
  bool mean = false;
  const auto sample = [&](Spec logits, Spec labels, double smoothing) {
    mean = !mean;
    Sample s{before, {{"smoothing", smoothing}, {"mean", mean}, {"labelled_only", false}}, std::vector<Fill>(before.size() + 1)};
    s.fills.push_back(is_floating(labels.dtype) ? uniform(0, 1) : integers(0, static_cast<int>(logits.shape[1])));
    s.inputs.insert(s.inputs.end(), {std::move(logits), std::move(labels)});
    return s;
  };
  const auto with_padding = [&](Spec logits, Spec labels, double smoothing) {
    Sample s = sample(std::move(logits), std::move(labels), smoothing);
    s.attributes = {{"smoothing", smoothing}, {"mean", false}, {"labelled_only", true}};
    s.fills.back().low = -2;
    return s;
  };
  return {sample(f32({3, 10}), i32({3}), 0),          sample(f32({65, 7}), i64({65}), 0.1),  sample(f32({1, 1}), i64({1}), 0),
          sample(f32({17, 65}), i64({17}), 0),        sample(f32({2, 1000}), i32({2}), 0.2), sample(f32({4, 33}), f32({4, 33}), 0),
          sample(f32({16, 8}), f32({16, 8}), 0.1),    sample(f32({300, 5}), i32({300}), 0),  with_padding(f32({17, 3}), i64({17}), 0),
          with_padding(f32({65, 4}), i32({65}), 0.1), with_padding(f32({0, 5}), i64({0}), 0)};
}

const AttributeDef kMean{"mean", Type::boolean, "the mean over rows, or their sum"};
const AttributeDef kLabelledOnly{"labelled_only", Type::boolean, "leaves out rows whose label is below 0; of a sum alone"};
const AttributeDef kSmoothing{"smoothing", Type::real, "share of the uniform distribution mixed into the targets, 0..1"};

}  // namespace

const OpDef& cross_entropy_def() {
  static const OpDef def{
      .name = kForward,
      .doc =
          "Mean over rows, or sum, of the cross-entropy of softmax(logits) against labels: a class for each row, or a row of shares. The mean over no rows is "
          "NaN.",
      .inputs = {"logits", "labels"},
      .attributes = {kSmoothing, kMean, kLabelledOnly},
      .infer = infer,
      .cost =
          [](const Problem& p) {
            return Cost{5 * p.inputs[0].elements(), p.inputs[0].bytes() + p.inputs[1].bytes()};
          },
      .reference = reference,
      .gradient = gradient,
      .gradient_reads = {inputs(0, 1), inputs(0)},
      .composed = composed,
      .variants = {{.name = "group_a_row",
                    .doc = "a work-group a row, through local memory",
                    .target = Target::gpu,
                    .needs = {.group_size = kGroup},
                    .workspace_bytes = row_losses_bytes,
                    .launch = launch_group},
                   {.name = "rows",
                    .doc = "a run of rows for each work-item, eight lanes wide",
                    .target = Target::cpu,
                    .longest_loop = classes_of<0>,
                    .workspace_bytes = row_losses_bytes,
                    .launch = launch_rows}},
      .samples = [] { return samples({}); },
      .rejected =
          [] {
            const auto with = [](double smoothing, bool mean, bool labelled_only) {
              return Attributes{{"smoothing", smoothing}, {"mean", mean}, {"labelled_only", labelled_only}};
            };
            const Attributes a = with(0, true, false);
            return std::vector<Rejected>{
                {{f32({3, 5}), i64({4})}, a, "cross_entropy: labels is int64 [4]; accepted: int32 or int64 [3], or float32 [3, 5]"},
                {{f32({3, 5}), b8({3})}, a, "cross_entropy: labels is bool [3]; accepted: int32 or int64 [3], or float32 [3, 5]"},
                {{f32({3, 0}), i64({3})}, a, "cross_entropy: logits is [3, 0]; accepted: at least one class"},
                {{f32({5}), i64({5})}, a, "cross_entropy: logits is [5], of rank 1; accepted: rank 2"},
                {{f32({3, 5}), i64({3})},
                 with(0, true, true),
                 "cross_entropy: rows without a label are to be left out of a mean; accepted: of a sum over rows with a class each"},
                {{f32({3, 5}), f32({3, 5})},
                 with(0, false, true),
                 "cross_entropy: rows without a label are to be left out of rows of shares; accepted: of a sum over rows with a class each"},
                {{f32({3, 5}), i64({3})}, with(1.5, true, false), "cross_entropy: smoothing 1.5 is out of range; accepted: 0..1"}};
          },
  };
  return def;
}

const OpDef& cross_entropy_backward_def() {
  static const OpDef def{
      .name = kBackward,
      .doc = "The gradient of cross_entropy for its logits.",
      .inputs = {"dy", "logits", "labels"},
      .outputs = {"dx"},
      .attributes = {kSmoothing, kMean, kLabelledOnly},
      .infer = backward_infer,
      .cost = per_element<7>,
      .reference = backward_reference,
      .gradient = backward_gradient,
      .gradient_reads = {inputs(1, 2), inputs(0, 1, 2), inputs(0, 1)},
      .composed = composed_backward,
      .variants = {{.name = "group_a_row",
                    .doc = "a work-group a row, through local memory",
                    .target = Target::gpu,
                    .needs = {.group_size = kGroup},
                    .launch = launch_backward_group},
                   {.name = "rows",
                    .doc = "a run of rows for each work-item, eight lanes wide",
                    .target = Target::cpu,
                    .longest_loop = classes_of<1>,
                    .launch = launch_backward_rows}},
      .samples = [] { return samples({f32({})}); },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({3}), f32({3, 5}), i64({3})},
                                          {{"smoothing", 0.0}, {"mean", true}, {"labelled_only", false}},
                                          "cross_entropy_backward: dy is [3]; accepted: []"}};
          },
  };
  return def;
}

Value cross_entropy(Value logits, Value labels, double smoothing, LossReduction reduction) {
  return apply(cross_entropy_def(), list(std::move(logits), std::move(labels)),
               {{"smoothing", smoothing}, {"mean", reduction == LossReduction::mean}, {"labelled_only", false}})[0];
}
Value cross_entropy_of_labelled(Value logits, Value labels, double smoothing) {
  return apply(cross_entropy_def(), list(std::move(logits), std::move(labels)), {{"smoothing", smoothing}, {"mean", false}, {"labelled_only", true}})[0];
}

}  // namespace gemel::inline ops
