#include "frontends/nn/layers/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "frontends/nn/layers/batch_parts.h"

namespace gemel::nn {
namespace {

Spec floats(Shape shape) { return {shape, DType::float32}; }

std::string pair_text(const Pair& p) { return p[0] == p[1] ? fmt::format("{}", p[0]) : fmt::format("{}x{}", p[0], p[1]); }

struct Channels {
  std::int64_t in, out, groups;
};
/// Input channels of a group. Groups that do not divide are refused before they give a weight of the wrong size.
std::int64_t group_channels(const char* layer, const Channels& c) {
  if (c.groups < 1 || c.in % c.groups != 0 || c.out % c.groups != 0)
    throw ShapeError(fmt::format("{}: {} groups given for {} input and {} output channels; accepted: a divisor of both", layer, c.groups, c.in, c.out));
  return c.in / c.groups;
}

/// @param padding_idx  from the end where it is negative
std::optional<std::int64_t> counted_from_front(std::optional<std::int64_t> padding_idx, std::int64_t rows) {
  if (!padding_idx) return {};
  if (*padding_idx < -rows || *padding_idx >= rows)
    throw UsageError(fmt::format("Embedding: padding_idx is {} for {} rows; accepted: {}..{}", *padding_idx, rows, -rows, rows - 1));
  return *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
}

/// Rows of normal numbers, and zeros for the padding.
Initialiser rows_but(std::optional<std::int64_t> padding_idx, std::int64_t width, double deviation = 1) {
  if (!padding_idx) return normal(deviation);
  return [start = normal(deviation), begin = *padding_idx * width, width](PhiloxStream& stream, std::span<float> numbers, std::int64_t first) {
    start(stream, numbers, first);
    const auto within = [&](std::int64_t element) { return numbers.begin() + std::clamp<std::int64_t>(element - first, 0, std::ssize(numbers)); };
    std::fill(within(begin), within(begin + width), 0.0f);
  };
}

}  // namespace

Linear::Linear(std::int64_t in, std::int64_t out, Bias bias)
    : weight_(add_parameter("weight", floats({in, out}), FileLayout::linear, uniform_within(default_bound(static_cast<double>(in))))) {
  if (bias == Bias::yes) bias_ = &add_parameter("bias", floats({out}), FileLayout::same, uniform_within(default_bound(static_cast<double>(in))));
}

std::string Linear::describe() const { return fmt::format("Linear({}, {}{})", weight_.spec.shape[0], weight_.spec.shape[1], bias_ ? "" : ", no bias"); }

/// In the layer's words, not those of the product that it is.
void Linear::check(const Value& x) const {
  const std::int64_t takes = weight_.spec.shape[0];
  if (x.shape().rank() >= 1 && x.shape().back() == takes) return;
  const std::string& path = *x.session().scope();
  throw ShapeError(fmt::format("{}{}: x is {}{}; accepted: [..., {}]", path.empty() ? "" : path + ": ", describe(), to_string(x.shape()),
                               x.shape().rank() >= 1 ? fmt::format(", of {} features", x.shape().back()) : "", takes));
}

Value Linear::forward(Value x) {
  check(x);
  Value y = matmul(std::move(x), weight_.tensor());
  return bias_ ? std::move(y) + bias_->tensor() : y;
}

ConvolutionOptions square_kernel(std::int64_t kernel, std::int64_t stride, std::int64_t padding, Bias bias, std::int64_t groups) {
  return {{kernel, kernel}, {.stride = {stride, stride}, .padding = {padding, padding}, .groups = groups}, bias};
}

Conv2d::Conv2d(std::int64_t in, std::int64_t out, const ConvolutionOptions& options)
    : options_(options),
      weight_(add_parameter("weight", floats({options.kernel[0], options.kernel[1], group_channels("Conv2d", {in, out, options.geometry.groups}), out}),
                            FileLayout::convolution, nullptr)) {
  const Initialiser start = uniform_within(default_bound(fan_in(weight_.spec.shape, weight_.layout)));
  weight_.initialise = start;
  if (options.bias == Bias::yes) bias_ = &add_parameter("bias", floats({out}), FileLayout::same, start);
}

std::string Conv2d::describe() const {
  const Shape& w = weight_.spec.shape;
  const Convolution& g = options_.geometry;
  std::string text = fmt::format("Conv2d({}, {}, kernel {}", w[2] * g.groups, w[3], pair_text(options_.kernel));
  if (g.stride != Pair{1, 1}) text += ", stride " + pair_text(g.stride);
  if (g.padding != Pair{0, 0}) text += ", padding " + pair_text(g.padding);
  if (g.dilation != Pair{1, 1}) text += ", dilation " + pair_text(g.dilation);
  if (g.groups != 1) text += fmt::format(", groups {}", g.groups);
  return text + (bias_ ? ")" : ", no bias)");
}

Value Conv2d::forward(Value x) {
  Value y = conv2d(std::move(x), weight_.tensor(), options_.geometry);
  return bias_ ? std::move(y) + bias_->tensor() : y;
}

Conv1d::Conv1d(std::int64_t in, std::int64_t out, const Convolution1dOptions& options)
    : options_(options),
      weight_(add_parameter("weight", floats({options.kernel, group_channels("Conv1d", {in, out, options.geometry.groups}), out}), FileLayout::convolution_1d,
                            nullptr)) {
  const Initialiser start = uniform_within(default_bound(fan_in(weight_.spec.shape, weight_.layout)));
  weight_.initialise = start;
  if (options.bias == Bias::yes) bias_ = &add_parameter("bias", floats({out}), FileLayout::same, start);
}

std::string Conv1d::describe() const {
  const Shape& w = weight_.spec.shape;
  const Convolution1d& g = options_.geometry;
  std::string text = fmt::format("Conv1d({}, {}, kernel {}", w[1] * g.groups, w[2], options_.kernel);
  if (g.stride != 1) text += fmt::format(", stride {}", g.stride);
  if (g.padding != 0) text += fmt::format(", padding {}", g.padding);
  if (g.dilation != 1) text += fmt::format(", dilation {}", g.dilation);
  if (g.groups != 1) text += fmt::format(", groups {}", g.groups);
  return text + (bias_ ? ")" : ", no bias)");
}

Value Conv1d::forward(Value x) {
  Value y = conv1d(std::move(x), weight_.tensor(), options_.geometry);
  return bias_ ? std::move(y) + bias_->tensor() : y;
}

BatchNorm2d::BatchNorm2d(std::int64_t features, const BatchNormOptions& options)
    : options_(options),
      weight_(add_parameter("weight", floats({features}), FileLayout::same, constant(1))),
      bias_(add_parameter("bias", floats({features}), FileLayout::same, constant(0))),
      running_mean_(add_buffer("running_mean", floats({features}), 0)),
      running_var_(add_buffer("running_var", floats({features}), 1)),
      num_batches_tracked_(add_buffer("num_batches_tracked", i64({}), 0)) {
  num_batches_tracked_.optional_in_files = true;  // older torchvision files lack it
}

bool has_batch_statistics(Module& module) {
  bool has = false;
  module.visit_all<BatchNorm2d>([&has](BatchNorm2d&) { has = true; });
  return has;
}

std::string BatchNorm2d::describe() const { return fmt::format("BatchNorm2d({})", weight_.spec.shape[0]); }

Value BatchNorm2d::forward(Value x) {
  const bool is_empty = x.shape().rank() > 0 && x.elements() == 0;  // of no samples: nothing moves the statistics
  if (!training() || norm_frozen() || !weight_.owner().trainable || is_empty)
    return batch_norm_inference(std::move(x), {weight_.tensor(), bias_.tensor()}, running_mean_.tensor(), running_var_.tensor(), options_.eps);
  const RunningStatistics running{running_mean_.tensor(), running_var_.tensor(), num_batches_tracked_.tensor()};
  const Scaling scaling{weight_.tensor(), bias_.tensor()};
  if (!batch_parts()) return batch_norm(std::move(x), scaling, running, options_.momentum, options_.eps);
  const std::int64_t rows = x.elements() / std::max<std::int64_t>(1, x.shape().back());
  BatchStatistics of_all = merge_moments(batch_parts()->gather(channel_moments(x), rows), running, options_.momentum);
  return batch_norm_inference(std::move(x), scaling, std::move(of_all.mean), std::move(of_all.var), options_.eps);
}

LayerNorm::LayerNorm(std::int64_t features, double eps)
    : eps_(eps),
      weight_(add_parameter("weight", floats({features}), FileLayout::same, constant(1))),
      bias_(add_parameter("bias", floats({features}), FileLayout::same, constant(0))) {}

std::string LayerNorm::describe() const { return fmt::format("LayerNorm({})", weight_.spec.shape[0]); }

Value LayerNorm::forward(Value x) { return layer_norm(std::move(x), weight_.tensor(), bias_.tensor(), eps_); }

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, std::optional<std::int64_t> padding_idx, GradientForm gradient)
    : padding_idx_(counted_from_front(padding_idx, num_embeddings)),
      weight_(add_parameter("weight", floats({num_embeddings, embedding_dim}), FileLayout::same, rows_but(padding_idx_, embedding_dim))) {
  weight_.gradient_form = gradient;
}

void Embedding::start_normal(double deviation) { weight_.initialise = rows_but(padding_idx_, weight_.spec.shape[1], deviation); }

std::string Embedding::describe() const {
  const std::string padding = padding_idx_ ? fmt::format(", padding_idx {}", *padding_idx_) : "";
  const char* gradient = weight_.gradient_form == GradientForm::rows ? ", gradient of rows" : "";
  return fmt::format("Embedding({}, {}{}{})", weight_.spec.shape[0], weight_.spec.shape[1], padding, gradient);
}

Value Embedding::forward(Value indices) {
  if (!padding_idx_) return embedding(weight_.tensor(), std::move(indices));
  Shape one_each = indices.shape();
  one_each.push_back(1);
  Value rows = embedding(weight_.tensor(), indices);
  const Value padding = full(indices.session(), {Shape{}, indices.dtype()}, static_cast<double>(*padding_idx_));
  const Value constant = rows.detached();  // what is taken of it gives its row no gradient
  return where(reshape(equal(std::move(indices), padding), one_each), constant, std::move(rows));
}

bool embed_by_rows(Module& module) {
  std::set<const Parameter*> tied;
  module.visit_all<TiedLinear>([&](TiedLinear& t) { tied.insert(&t.weight().owner()); });
  bool any = false;
  module.visit_all<Embedding>([&](Embedding& e) {
    if (tied.contains(&e.weight())) return;
    e.weight().gradient_form = GradientForm::rows;
    any = true;
  });
  return any;
}

TiedLinear::TiedLinear(Embedding& table, Bias bias) : weight_(add_parameter("weight", table.weight().spec, FileLayout::same, nullptr)) {
  tie(weight_, table.weight());
  const std::int64_t out = weight_.spec.shape[0], in = weight_.spec.shape[1];
  if (bias == Bias::yes) bias_ = &add_parameter("bias", floats({out}), FileLayout::same, uniform_within(default_bound(static_cast<double>(in))));
}

std::string TiedLinear::describe() const { return fmt::format("TiedLinear({}, {}{})", weight_.spec.shape[1], weight_.spec.shape[0], bias_ ? "" : ", no bias"); }

Value TiedLinear::forward(Value x) {
  Value y = matmul(std::move(x), weight_.tensor(), Transpose::no, Transpose::yes);
  return bias_ ? std::move(y) + bias_->tensor() : y;
}

}  // namespace gemel::nn
