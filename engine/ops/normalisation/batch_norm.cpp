// Batch normalisation; the formulas are in opencl/kernels/lib/ops/batch_norm.clh.
// Legend: x [..., C], n rows of C channels; inverse = 1 / sqrt(variance + eps); xhat = (x - mean) inverse.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/normalisation/batch_norm_composed.h"
#include "engine/ops/normalisation/channel_reduction.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

constexpr const char *kFile = "batch_norm.cl", *kPassFile = "batch_norm_pass.cl";

/// @param x            index of the input that is x, or is like it
/// @param per_channel  index of the first of the inputs called `names`, which have one number a channel
void check_channels(const char* op, const Specs& in, std::size_t x, std::size_t per_channel, std::initializer_list<const char*> names) {
  check_float32(op, "x", in[x]);
  if (in[x].shape.rank() < 2)
    throw ShapeError(fmt::format("{}: x is {}, of rank {}; accepted: rank 2 or more", op, to_string(in[x].shape), in[x].shape.rank()));
  const Shape channels{in[x].shape.back()};
  for (const char* name : names) {
    check_float32(op, name, in[per_channel]);
    if (const Shape& given = in[per_channel++].shape; given != channels)
      throw ShapeError(fmt::format("{}: {} is {}, x {} has {} channels, its last axis as images are [N, H, W, C]; accepted: {}", op, name, to_string(given),
                                   to_string(in[x].shape), channels[0], to_string(channels)));
  }
}

Specs infer(const Specs& in, const Attributes&) {
  check_channels("batch_norm", in, 0, 1, {"gamma", "beta", "running_mean", "running_var"});
  if (in[5] != i64({})) throw ShapeError("batch_norm: batches is " + to_string(in[5]) + "; accepted: int64 []");
  if (columns_of(in[0].shape).rows < 2)
    throw ShapeError(
        fmt::format("batch_norm: x is {}, fewer than 2 values a channel, which have no unbiased variance; accepted: 2 or more, "
                    "or inference with the running statistics",
                    to_string(in[0].shape)));
  return {in[0], in[1], in[1]};
}

Specs inference_infer(const Specs& in, const Attributes&) {
  check_channels("batch_norm_inference", in, 0, 1, {"gamma", "beta", "running_mean", "running_var"});
  return {in[0]};
}

Specs backward_infer(const Specs& in, const Attributes&) {
  constexpr const char* op = "batch_norm_backward";
  check_channels(op, in, 1, 2, {"gamma", "mean", "inverse"});
  check_float32(op, "dy", in[0]);
  check_shape(op, "dy", in[0], in[1].shape);
  return {in[1], in[2], in[2]};
}

void reference(const HostCall& c) {
  const auto [rows, channels] = columns_of(c.in_shape(0));
  const double momentum = c.attributes().real("momentum"), eps = c.attributes().real("eps"), n = static_cast<double>(rows);
  const auto running_mean = c.written<double>(3), running_var = c.written<double>(4);
  ++c.written<std::int64_t>(5)[0];
  for (std::size_t j = 0; j < at(channels); ++j) {
    const auto x = [&](std::int64_t r) { return c.real(0)[at(r * channels) + j]; };
    double mean = 0, m2 = 0;
    for (std::int64_t r = 0; r < rows; ++r) mean += x(r) / n;
    for (std::int64_t r = 0; r < rows; ++r) m2 += (x(r) - mean) * (x(r) - mean);
    const double inverse = 1 / std::sqrt(m2 / n + eps);
    for (std::int64_t r = 0; r < rows; ++r) c.out_real(0)[at(r * channels) + j] = (x(r) - mean) * inverse * c.real(1)[j] + c.real(2)[j];
    c.out_real(1)[j] = mean;
    c.out_real(2)[j] = inverse;
    running_mean[j] += momentum * (mean - running_mean[j]);
    running_var[j] += momentum * (m2 / (n - 1) - running_var[j]);
  }
}

void inference_reference(const HostCall& c) {
  const auto channels = at(c.in_shape(0).back());
  for (std::size_t i = 0; i < c.real(0).size(); ++i) {
    const std::size_t j = i % channels;
    c.out_real(0)[i] = (c.real(0)[i] - c.real(3)[j]) / std::sqrt(c.real(4)[j] + c.attributes().real("eps")) * c.real(1)[j] + c.real(2)[j];
  }
}

void backward_reference(const HostCall& c) {
  const auto [rows, channels] = columns_of(c.in_shape(1));
  for (std::size_t j = 0; j < at(channels); ++j) {
    const double gamma = c.real(2)[j], mean = c.real(3)[j], inverse = c.real(4)[j], n = static_cast<double>(rows);
    const auto xhat = [&](std::size_t i) { return (c.real(1)[i] - mean) * inverse; };
    double dgamma = 0, dbeta = 0;
    for (std::size_t i = j; i < c.real(0).size(); i += at(channels)) {
      dbeta += c.real(0)[i];
      dgamma += c.real(0)[i] * xhat(i);
    }
    for (std::size_t i = j; i < c.real(0).size(); i += at(channels)) c.out_real(0)[i] = gamma * inverse * (c.real(0)[i] - dbeta / n - xhat(i) * dgamma / n);
    c.out_real(1)[j] = dgamma;
    c.out_real(2)[j] = dbeta;
  }
}

// ---- gradients

/// The saved statistics are outputs: whoever differentiates the backward record sends gradients to them as well.
Values gradient(const Backward& b) {
  Values out(6);
  const Value x = b.input(0), mean = b.output(1), inverse = b.output(2);
  if (b.has_gradient(0)) {
    const Values into{Value(), b.place(1), b.place(2)};
    Values fused = apply(batch_norm_backward_def(), list(b.gradient(0), x, b.input(1), mean, inverse), {}, into);
    for (int i : {0, 1, 2})
      if (b.wants(i)) out[at(i)] = std::move(fused[at(i)]);
  }
  if (!b.wants(0)) return out;
  const double one = 1 / static_cast<double>(columns_of(x.shape()).rows);
  if (b.has_gradient(1)) accumulate(out[0], broadcast_to(b.gradient(1) * one, x.shape()));
  if (b.has_gradient(2)) accumulate(out[0], (x - mean) * (b.gradient(2) * inverse * inverse * inverse * -one));
  return out;
}

/// Of L = sum(u dx) + sum(a dgamma) + sum(b dbeta). With k = gamma inverse, S = sum_rows, S1 = S dy, S2 = S dy xhat,
/// U1 = S u, U2 = S u xhat, Q = S u dy - (U1 S1 + U2 S2) / n:
///   d dy = k (u - U1 / n - xhat U2 / n) + a xhat + b,   h = d xhat = a dy - k / n (u S2 + dy U2),
///   d x = inverse h,   d gamma = inverse Q,   d mean = - inverse S h,   d inverse = gamma Q + S h (x - mean).
Values backward_gradient(const Backward& g) {
  Values out(5);
  const Shape& shape = g.input_shape(1);
  const Axes axes = leading_axes(shape);
  const double one = 1 / static_cast<double>(columns_of(shape).rows);
  const Value x = g.input(1), gamma = g.input(2), mean = g.input(3), inverse = g.input(4);
  const Value centred = x - mean, xhat = centred * inverse;
  Values of_u;  // the backward record applied to u: k (u - ...), U2, U1
  if (g.has_gradient(0)) of_u = apply(batch_norm_backward_def(), list(g.gradient(0), x, gamma, mean, inverse));
  if (g.wants(0)) {
    if (g.has_gradient(0)) out[0] = of_u[0];
    if (g.has_gradient(1)) accumulate(out[0], xhat * g.gradient(1));
    if (g.has_gradient(2)) accumulate(out[0], broadcast_to(g.gradient(2), shape));
  }
  if (!g.wants(1) && !g.wants(2) && !g.wants(3) && !g.wants(4)) return out;
  const Value dy = g.input(0), s1 = sum(dy, axes), s2 = sum(dy * xhat, axes);
  Value h, q;
  if (g.has_gradient(0)) {
    const Value& u = g.gradient(0);
    q = sum(u * dy, axes) - (of_u[2] * s1 + of_u[1] * s2) * one;
    h = (u * s2 + dy * of_u[1]) * (gamma * inverse * -one);
  }
  if (g.has_gradient(1)) accumulate(h, dy * g.gradient(1));
  if (g.wants(2) && q) out[2] = inverse * q;
  if (!h) return out;
  if (g.wants(1)) out[1] = h * inverse;
  if (g.wants(3)) out[3] = negate(inverse * sum(h, axes));
  if (g.wants(4)) {
    out[4] = sum(h * centred, axes);
    if (q) accumulate(out[4], gamma * q);
  }
  return out;
}

Values inference_gradient(const Backward& b) {
  Values out(5);
  const Value& dy = b.gradient(0);
  const Axes axes = leading_axes(dy.shape());
  if (b.wants(2)) out[2] = sum(dy, axes);
  if (!b.wants(0) && !b.wants(1) && !b.wants(3) && !b.wants(4)) return out;  // beta's gradient keeps no statistics
  const Value inverse = rsqrt(b.input(4) + b.attributes().real("eps"));
  if (b.wants(0)) out[0] = dy * (b.input(1) * inverse);
  if (b.wants(1) || b.wants(4)) {
    const Value weighted = sum(dy * (b.input(0) - b.input(3)), axes);
    if (b.wants(1)) out[1] = weighted * inverse;
    if (b.wants(4)) out[4] = weighted * b.input(1) * (inverse * inverse * inverse * -0.5);
  }
  if (b.wants(3)) out[3] = negate(sum(dy, axes) * (b.input(1) * inverse));
  return out;
}

// ---- launches: a GPU's groups combine the spans themselves where a CPU has a kernel for it

template <Mapping mapping>
std::int64_t forward_bytes(const Problem& p, const opencl::DeviceProfile& profile) {
  return SpanMemory(spans_of(columns_of(p.inputs[0].shape), profile, mapping), profile, mapping, mapping == Mapping::rows ? 1 : 0).bytes();
}
template <Mapping mapping>
void launch_forward(Launch& l) {
  const Columns columns = columns_of(l.in_shape(0));
  const Spans s = spans_of(columns, l.profile(), mapping);
  const SpanMemory memory(s, l.profile(), mapping, mapping == Mapping::rows ? 1 : 0);
  const opencl::Region parts = memory.parts(l.workspace());
  const auto momentum = static_cast<float>(l.attributes().real("momentum")), eps = static_cast<float>(l.attributes().real("eps"));
  run_spans(l, {kFile, "batch_norm_moments", mapping}, s, memory, {l.in(0)});
  if (mapping == Mapping::tile)
    return run_over_rows(l, {kPassFile, "batch_norm_normalise", mapping}, columns,
                         {l.in(0), parts, l.in(1), l.in(2), l.in(3), l.in(4), l.in(5), l.out(1), l.out(2), l.out(0), s.spans, s.span_rows, momentum, eps});
  const opencl::Region scale = memory.lines(l.workspace());
  l.run(path_of(kFile, mapping), "batch_norm_statistics", channel_range(std::max<std::int64_t>(1, s.channels)),
        {parts, l.in(1), l.in(3), l.in(4), l.in(5), l.out(1), l.out(2), scale, s.rows, s.channels, s.spans, s.span_rows, momentum, eps});
  run_over_rows(l, {kPassFile, "batch_norm_apply", mapping}, columns, {l.in(0), l.out(1), scale, l.in(2), l.out(0)});
}

template <Mapping mapping>
std::int64_t scale_bytes(const Problem& p, const opencl::DeviceProfile&) {
  return mapping == Mapping::rows ? p.inputs[1].bytes() : 0;
}
template <Mapping mapping>
void launch_inference(Launch& l) {
  const Columns columns = columns_of(l.in_shape(0));
  const auto eps = static_cast<float>(l.attributes().real("eps"));
  if (mapping == Mapping::tile)
    return run_over_rows(l, {kPassFile, "batch_norm_inference", mapping}, columns, {l.in(0), l.in(1), l.in(2), l.in(3), l.in(4), l.out(0), eps});
  l.run(path_of(kFile, mapping), "batch_norm_running_scale", channel_range(columns.channels), {l.in(1), l.in(4), l.workspace(), columns.channels, eps});
  run_over_rows(l, {kPassFile, "batch_norm_apply", mapping}, columns, {l.in(0), l.in(3), l.workspace(), l.in(2), l.out(0)});
}

template <Mapping mapping>
std::int64_t backward_bytes(const Problem& p, const opencl::DeviceProfile& profile) {
  return SpanMemory(spans_of(columns_of(p.inputs[1].shape), profile, mapping), profile, mapping, mapping == Mapping::rows ? 3 : 0).bytes();
}
template <Mapping mapping>
void launch_backward(Launch& l) {
  const Columns columns = columns_of(l.in_shape(1));
  const Spans s = spans_of(columns, l.profile(), mapping);
  const SpanMemory memory(s, l.profile(), mapping, mapping == Mapping::rows ? 3 : 0);
  const opencl::Region parts = memory.parts(l.workspace());
  run_spans(l, {kFile, "batch_norm_sums", mapping}, s, memory, {l.in(0), l.in(1), l.in(3)});
  if (mapping == Mapping::tile)
    return run_over_rows(l, {kPassFile, "batch_norm_slope", mapping}, columns,
                         {l.in(0), l.in(1), parts, l.in(2), l.in(3), l.in(4), l.out(1), l.out(2), l.out(0), s.spans});
  const opencl::Region line = memory.lines(l.workspace());
  l.run(path_of(kFile, mapping), "batch_norm_totals", channel_range(s.channels),
        {parts, l.in(2), l.in(4), l.out(1), l.out(2), line, s.rows, s.channels, s.spans});
  run_over_rows(l, {kPassFile, "batch_norm_slope", mapping}, columns, {l.in(0), l.in(1), l.in(3), line, l.out(0)});
}

using Bytes = std::int64_t (*)(const Problem&, const opencl::DeviceProfile&);
std::vector<Variant> variants(Bytes tile_bytes, void (*tile)(Launch&), Bytes rows_bytes, void (*rows)(Launch&)) {
  return {{.name = "tiles",
           .doc = "a group of 32 channels by 8 rows",
           .target = Target::gpu,
           .needs = {.group_size = kTileItems},
           .workspace_bytes = tile_bytes,
           .launch = tile},
          {.name = "rows",
           .doc = "a span of rows for each work-item, loops along the channels",
           .target = Target::cpu,
           .workspace_bytes = rows_bytes,
           .launch = rows}};
}

// ---- samples

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{{2, 3}, {17, 33}, {65, 1}, {4, 5, 3, 16}, {2, 31, 31, 8}, {150, 64}, {5, 1, 1, 65}, {4, 0}};
  return all;
}
/// x, then `channels` inputs of one number a channel.
Specs x_and(const Shape& x, std::size_t channels) {
  Specs out(channels + 1, {Shape{x.back()}, DType::float32});
  out[0] = {x, DType::float32};
  return out;
}
Specs with_batches(Specs in) {
  in.push_back(i64({}));
  return in;
}
const Fill kPositive = uniform(0.3, 2);

}  // namespace

const OpDef& batch_norm_def() {
  static const OpDef def{
      .name = "batch_norm",
      .doc = "Normalises each channel by the batch's mean and variance, moves the running statistics, and counts the batch.",
      .inputs = {"x", "gamma", "beta", "running_mean", "running_var", "batches"},
      .outputs = {"y", "mean", "inverse"},
      .attributes = {{"momentum", Type::real, "share of the batch in the running statistics"}, {"eps", Type::real, "added to the variance"}},
      .infer = infer,
      .cost = per_element<7>,
      .reference = reference,
      .gradient = gradient,
      .gradient_reads = {inputs(0, 1) | outputs(1, 2), inputs(0, 1) | outputs(1, 2), inputs(0, 1) | outputs(1, 2), nothing},
      .composed = composed_batch_norm,
      .rematerialised = batch_norm_again,
      .writes = {3, 4, 5},
      .may_reuse = {{0, 0}},
      .takes_epilogue = true,
      .variants = variants(forward_bytes<Mapping::tile>, launch_forward<Mapping::tile>, forward_bytes<Mapping::rows>, launch_forward<Mapping::rows>),
      .samples =
          [] {
            std::vector<Sample> out;
            for (const Shape& x : shapes())
              out.push_back({with_batches(x_and(x, 4)), {{"momentum", 0.1}, {"eps", 1e-5}}, {Fill{}, Fill{}, Fill{}, Fill{}, kPositive, integers(0, 9)}});
            return out;
          },
      .rejected =
          [] {
            const Attributes a{{"momentum", 0.1}, {"eps", 1e-5}};
            return std::vector<Rejected>{
                {with_batches(x_and({1, 4}, 4)), a,
                 "batch_norm: x is [1, 4], fewer than 2 values a channel, which have no unbiased variance; accepted: 2 or "
                 "more, or inference with the running statistics"},
                {with_batches(x_and({4}, 4)), a, "batch_norm: x is [4], of rank 1; accepted: rank 2 or more"},
                {x_and({2, 4}, 5), a, "batch_norm: batches is float32 [4]; accepted: int64 []"},
                {{f32({2, 4}), f32({4}), f32({4}), f32({3}), f32({4}), i64({})},
                 a,
                 "batch_norm: running_mean is [3], x [2, 4] has 4 channels, its last axis as images are [N, H, W, C]; accepted: [4]"},
                {{i32({2, 4}), f32({4}), f32({4}), f32({4}), f32({4}), i64({})}, a, "batch_norm: x is int32 [2, 4]; accepted: float32"}};
          },
  };
  return def;
}

const OpDef& batch_norm_inference_def() {
  static const OpDef def{
      .name = "batch_norm_inference",
      .doc = "Normalises each channel by the running statistics.",
      .inputs = {"x", "gamma", "beta", "running_mean", "running_var"},
      .attributes = {{"eps", Type::real, "added to the variance"}},
      .infer = inference_infer,
      .cost = per_element<3>,
      .reference = inference_reference,
      .gradient = inference_gradient,
      .gradient_reads = {inputs(1, 4), inputs(0, 3, 4), nothing, inputs(1, 4), inputs(0, 1, 3, 4)},
      .composed = composed_batch_norm_inference,
      .decomposes = true,
      .may_reuse = {{0, 0}},
      .takes_epilogue = true,
      .variants = variants(scale_bytes<Mapping::tile>, launch_inference<Mapping::tile>, scale_bytes<Mapping::rows>, launch_inference<Mapping::rows>),
      .samples =
          [] {
            std::vector<Sample> out;
            for (const Shape& x : {Shape{1, 3}, {17, 33}, {65, 1}, {2, 5, 3, 16}, {0, 4}, {3, 0}})
              out.push_back({x_and(x, 4), {{"eps", 1e-5}}, {Fill{}, Fill{}, Fill{}, Fill{}, kPositive}});
            return out;
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{x_and({4}, 4), {{"eps", 1e-5}}, "batch_norm_inference: x is [4], of rank 1; accepted: rank 2 or more"}};
          },
  };
  return def;
}

const OpDef& batch_norm_backward_def() {
  static const OpDef def{
      .name = "batch_norm_backward",
      .doc = "The gradients of batch_norm for x, gamma and beta, from its saved statistics.",
      .inputs = {"dy", "x", "gamma", "mean", "inverse"},
      .outputs = {"dx", "dgamma", "dbeta"},
      .infer = backward_infer,
      .cost = per_element<10>,
      .reference = backward_reference,
      .gradient = backward_gradient,
      .gradient_reads = {inputs(1, 2, 3, 4), inputs(0, 1, 2, 3, 4), inputs(0, 1, 2, 3, 4)},
      .composed = composed_batch_norm_backward,
      .may_reuse = {{0, 0}},
      .variants = variants(backward_bytes<Mapping::tile>, launch_backward<Mapping::tile>, backward_bytes<Mapping::rows>, launch_backward<Mapping::rows>),
      .samples =
          [] {
            std::vector<Sample> out;
            for (const Shape& x : shapes()) {
              Specs specs = x_and(x, 3);
              specs.insert(specs.begin(), specs[0]);
              out.push_back({std::move(specs), {}, {Fill{}, Fill{}, Fill{}, Fill{}, kPositive}});
            }
            return out;
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({3, 2}), f32({2, 2}), f32({2}), f32({2}), f32({2})}, {}, "batch_norm_backward: dy is [3, 2]; accepted: [2, 2]"}};
          },
  };
  return def;
}

Value batch_norm(Value x, const Scaling& scaling, const RunningStatistics& running, double momentum, double eps) {
  return apply(batch_norm_def(), list(std::move(x), scaling.gamma, scaling.beta, running.mean.detached(), running.var.detached(), running.batches.detached()),
               {{"momentum", momentum}, {"eps", eps}})[0];
}

Value batch_norm_inference(Value x, const Scaling& scaling, Value running_mean, Value running_var, double eps) {
  return apply(batch_norm_inference_def(), list(std::move(x), scaling.gamma, scaling.beta, std::move(running_mean), std::move(running_var)), {{"eps", eps}})[0];
}

}  // namespace gemel::inline ops
