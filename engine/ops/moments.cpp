// Moments of channels, apart from what is made of them: those of parts of a batch can be merged before a normalisation applies them.
#include <numeric>

#include "engine/base/span.h"
#include "engine/ops/column_spans.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"

namespace gemel {
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
  l.run(kFile, "batch_norm_merged_moments", channel_range(s.channels),
        {s.spans ? memory.parts(l.workspace()) : l.out(0), l.out(0), l.out(1), s.rows, s.channels, s.spans, s.span_rows});
}

}  // namespace

const OpDef& channel_moments_def() {
  static const OpDef def{
      .name = "channel_moments",
      .doc = "The mean of each channel, and the sum of its squared deviations.",
      .inputs = {"x"},
      .outputs = {"mean", "squares"},
      .infer = infer,
      .cost = [](const Problem& p) { return Cost{4 * p.inputs[0].elements(), p.inputs[0].bytes() + 2 * p.outputs[0].bytes()}; },
      .reference = reference,
      .gradient = gradient,
      .gradient_reads = {inputs(0) | outputs(0)},
      .variants = {{"tiles", "a group of 32 channels by 8 rows", never_declines, rank_with_local_memory, workspace_bytes<Mapping::tile>, launch<Mapping::tile>},
                   {"rows", "a span of rows for each work-item, loops along the channels", never_declines, rank_anywhere,
                    workspace_bytes<Mapping::rows>, launch<Mapping::rows>}},
      .samples = [] {
        std::vector<Sample> out;
        for (const Shape& x : {Shape{2, 3}, {17, 33}, {65, 1}, {6}, {4, 5, 3, 16}, {2, 31, 31, 8}, {150, 64}, {4, 0}, {0, 3}}) out.push_back({{{x, DType::float32}}});
        return out;
      },
      .rejected = [] {
        return std::vector<Rejected>{{{f32({})}, {}, "channel_moments: x is [], of rank 0; accepted: rank 1 or more"},
                                     {{i32({2, 3})}, {}, "channel_moments: x is int32 [2, 3]; accepted: float32"}};
      }};
  return def;
}

Moments channel_moments(Value x) {
  Values out = apply(channel_moments_def(), list(std::move(x)));
  return {std::move(out[0]), std::move(out[1])};
}

}  // namespace gemel
