// Moments of channels, separate from the normalisation that applies them, so that those of parts of a batch can be merged first.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/base/numbers.h"
#include "engine/ops/common.h"
#include "engine/ops/normalisation/channel_reduction.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

constexpr const char* kFile = "batch_norm.cl";

Specs infer(const Specs& in, const Attributes&) {
  check_float32("channel_moments", "x", in[0]);
  if (in[0].shape.rank() < 1) throw ShapeError("channel_moments: x is [], of rank 0; accepted: rank 1 or more");
  const Spec channels{Shape{in[0].shape.back()}, DType::float32};
  return {channels, channels};
}

void reference(const HostCall& c) {
  const auto [rows, channels] = columns_of(c.in_shape(0));
  for (std::size_t j = 0; j < at(channels); ++j) {
    double mean = 0, squares = 0;
    for (std::size_t i = j; i < c.real(0).size(); i += at(channels)) mean += c.real(0)[i] / static_cast<double>(rows);
    for (std::size_t i = j; i < c.real(0).size(); i += at(channels)) squares += (c.real(0)[i] - mean) * (c.real(0)[i] - mean);
    c.out_real(0)[j] = mean;
    c.out_real(1)[j] = squares;
  }
}

/// dx = dmean / rows + 2 (x - mean) dsquares: the mean moves too, but the deviations add up to 0.
Values gradient(const Backward& b) {
  Value out;
  const Shape& shape = b.input_shape(0);
  if (b.has_gradient(0)) accumulate(out, broadcast_to(b.gradient(0) * (1 / static_cast<double>(std::max<std::int64_t>(1, columns_of(shape).rows))), shape));
  if (b.has_gradient(1)) accumulate(out, (b.input(0) - b.output(0)) * (b.gradient(1) * 2.0));
  return {out};
}

template <Mapping mapping>
std::int64_t workspace_bytes(const Problem& p, const opencl::DeviceProfile& profile) {
  return SpanMemory(spans_of(columns_of(p.inputs[0].shape), profile, mapping), profile, mapping, 0).bytes();
}

template <Mapping mapping>
void launch(Launch& l) {
  const Spans s = spans_of(columns_of(l.in_shape(0)), l.profile(), mapping);
  const SpanMemory memory(s, l.profile(), mapping, 0);
  run_spans(l, {kFile, "batch_norm_moments", mapping}, s, memory, {l.in(0)});
  run_totals(l, {kFile, "batch_norm_merged_moments", mapping}, s.channels,
             {s.spans ? memory.parts(l.workspace()) : l.out(0), l.out(0), l.out(1), s.rows, s.channels, s.spans, s.span_rows});
}

// ---- merging those of parts

void check_part(const char* name, const Spec& spec, const Spec& accepted) {
  if (spec != accepted) throw ShapeError(fmt::format("merge_moments: {} is {}; accepted: {}", name, to_string(spec), to_string(accepted)));
}

Specs infer_merged(const Specs& in, const Attributes&) {
  if (in[0].dtype != DType::float32 || in[0].shape.rank() != 2 || in[0].shape[0] < 1)
    throw ShapeError(fmt::format("merge_moments: mean is {}; accepted: float32 [parts, channels], of one part or more", to_string(in[0])));
  const Spec channels = f32({in[0].shape[1]});
  check_part("squares", in[1], in[0]);
  check_part("rows", in[2], i64({in[0].shape[0]}));
  check_part("running_mean", in[3], channels);
  check_part("running_var", in[4], channels);
  check_part("batches", in[5], i64({}));
  return {channels, channels};
}

void reference_merged(const HostCall& c) {
  const std::size_t parts = at(c.in_shape(0)[0]), channels = at(c.in_shape(0)[1]);
  const double momentum = c.attributes().real("momentum");
  const auto rows_of = c.in<std::int64_t>(2);
  const auto running_mean = c.written<double>(3), running_var = c.written<double>(4);
  ++c.written<std::int64_t>(5)[0];
  const auto rows = static_cast<double>(std::accumulate(rows_of.begin(), rows_of.end(), std::int64_t{0}));
  for (std::size_t j = 0; j < channels; ++j) {
    double mean = 0, squares = 0;
    for (std::size_t p = 0; p < parts; ++p) mean += c.real(0)[p * channels + j] * static_cast<double>(rows_of[p]) / rows;
    for (std::size_t p = 0; p < parts; ++p) {
      const double distance = c.real(0)[p * channels + j] - mean;
      squares += c.real(1)[p * channels + j] + static_cast<double>(rows_of[p]) * distance * distance;
    }
    c.out_real(0)[j] = mean;
    c.out_real(1)[j] = squares / rows;
    running_mean[j] += momentum * (mean - running_mean[j]);
    running_var[j] += momentum * (squares / std::max(1.0, rows - 1) - running_var[j]);
  }
}

/// With N = sum rows: dmean_p = rows_p / N (dmean + 2 (mean_p - mean) dvar), dsquares_p = dvar / N. That the mean moves with its parts adds
/// nothing to the second, for the weighted distances from it add up to 0.
Values gradient_of_merged(const Backward& b) {
  Values out(6);
  const Shape& parts = b.input_shape(0);
  const Value rows = cast(b.input(2), DType::float32), total = sum(rows), share = reshape(rows / total, Shape{parts[0], 1});
  if (b.wants(0)) {
    if (b.has_gradient(0)) out[0] = share * b.gradient(0);
    if (b.has_gradient(1)) accumulate(out[0], share * (b.input(0) - b.output(0)) * (b.gradient(1) * 2.0));
  }
  if (b.wants(1) && b.has_gradient(1)) out[1] = broadcast_to(b.gradient(1) / total, parts);
  return out;
}

void launch_merged(Launch& l) {
  const std::int64_t parts = l.in_shape(0)[0], channels = l.in_shape(0)[1];
  l.run("any/merge_moments.cl", "batch_norm_merge_parts", channel_range(std::max<std::int64_t>(1, channels)),  // the batch counts also where there are none
        {l.in(0), l.in(1), l.in(2), l.in(3), l.in(4), l.in(5), l.out(0), l.out(1), parts, channels, static_cast<float>(l.attributes().real("momentum"))});
}

Specs merged_inputs(std::int64_t parts, std::int64_t channels) {
  return {f32({parts, channels}), f32({parts, channels}), i64({parts}), f32({channels}), f32({channels}), i64({})};
}

}  // namespace

const OpDef& channel_moments_def() {
  static const OpDef def{
      .name = "channel_moments",
      .doc = "The mean of each channel, and the sum of its squared deviations.",
      .inputs = {"x"},
      .outputs = {"mean", "squares"},
      .infer = infer,
      .cost =
          [](const Problem& p) {
            return Cost{4 * p.inputs[0].elements(), p.inputs[0].bytes() + 2 * p.outputs[0].bytes()};
          },
      .reference = reference,
      .gradient = gradient,
      .gradient_reads = {inputs(0) | outputs(0)},
      .variants = {{.name = "tiles",
                    .doc = "a group of 32 channels by 8 rows",
                    .target = Target::gpu,
                    .needs = {.group_size = kTileItems},
                    .workspace_bytes = workspace_bytes<Mapping::tile>,
                    .launch = launch<Mapping::tile>},
                   {.name = "rows",
                    .doc = "a span of rows for each work-item, loops along the channels",
                    .target = Target::cpu,
                    .workspace_bytes = workspace_bytes<Mapping::rows>,
                    .launch = launch<Mapping::rows>}},
      .samples =
          [] {
            std::vector<Sample> out;
            for (const Shape& x : {Shape{2, 3}, {17, 33}, {65, 1}, {6}, {4, 5, 3, 16}, {2, 31, 31, 8}, {150, 64}, {4, 0}, {0, 3}})
              out.push_back({{{x, DType::float32}}});
            return out;
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({})}, {}, "channel_moments: x is [], of rank 0; accepted: rank 1 or more"},
                                         {{i32({2, 3})}, {}, "channel_moments: x is int32 [2, 3]; accepted: float32"}};
          },
  };
  return def;
}

const OpDef& merge_moments_def() {
  static const OpDef def{
      .name = "merge_moments",
      .doc = "The mean and the biased variance of each channel of a batch, from the moments of its parts; moves the running statistics, and counts the batch.",
      .inputs = {"mean", "squares", "rows", "running_mean", "running_var", "batches"},
      .outputs = {"mean", "var"},
      .attributes = {{"momentum", Type::real, "share of the batch in the running statistics"}},
      .infer = infer_merged,
      .cost =
          [](const Problem& p) {
            return Cost{8 * p.inputs[0].elements(), 2 * p.inputs[0].bytes() + 6 * p.outputs[0].bytes()};
          },
      .reference = reference_merged,
      .gradient = gradient_of_merged,
      .gradient_reads = {inputs(0, 2) | outputs(0), inputs(2), nothing},
      .writes = {3, 4, 5},
      .variants = {{.name = "plain", .doc = "a work-item for each channel", .launch = launch_merged}},
      .samples =
          [] {
            std::vector<Sample> out;
            for (const auto& [parts, channels] : {std::pair{1, 3}, {2, 65}, {4, 17}, {3, 0}})
              out.push_back(
                  {merged_inputs(parts, channels), {{"momentum", 0.1}}, {Fill{}, uniform(0.3, 2), integers(1, 9), Fill{}, uniform(0.3, 2), integers(0, 9)}});
            return out;
          },
      .rejected =
          [] {
            const Attributes a{{"momentum", 0.1}};
            Specs squares = merged_inputs(2, 3), rows = squares, none = merged_inputs(0, 3);
            squares[1] = f32({3, 3});
            rows[2] = f32({2});
            return std::vector<Rejected>{{squares, a, "merge_moments: squares is float32 [3, 3]; accepted: float32 [2, 3]"},
                                         {rows, a, "merge_moments: rows is float32 [2]; accepted: int64 [2]"},
                                         {none, a, "merge_moments: mean is float32 [0, 3]; accepted: float32 [parts, channels], of one part or more"}};
          },
  };
  return def;
}

Moments channel_moments(Value x) {
  Values out = apply(channel_moments_def(), list(std::move(x)));
  return {std::move(out[0]), std::move(out[1])};
}

BatchStatistics merge_moments(const PartMoments& parts, const RunningStatistics& running, double momentum) {
  Values out =
      apply(merge_moments_def(), list(parts.mean, parts.squares, parts.rows, running.mean.detached(), running.var.detached(), running.batches.detached()),
            {{"momentum", momentum}});
  return {std::move(out[0]), std::move(out[1])};
}

}  // namespace gemel::inline ops
