// MobileNetV2 and EfficientNet: inverted residuals.
// Sources: M. Sandler et al., MobileNetV2: inverted residuals and linear bottlenecks, 2018; M. Tan, Q. Le, EfficientNet:
// rethinking model scaling for convolutional neural networks, 2019; G. Huang et al., Deep networks with stochastic depth, 2016.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "engine/ops/ops.h"
#include "frontends/models/blocks.h"
#include "frontends/models/pictures/architectures.h"

namespace gemel::models {
namespace {

using nn::BatchNorm2d;
using nn::Bias;
using nn::Conv2d;
using nn::Linear;
using nn::square_kernel;

/// A stage of blocks: hidden channels over input channels, kernel, first stride, channels, blocks.
struct Stage {
  std::int64_t expansion, kernel, stride, out, blocks;
};

/// features, mean over the image, dropout and a linear layer.
class Mobile : public nn::Module {
 public:
  explicit Mobile(std::string kind) : kind_(std::move(kind)), features_(add<nn::Sequential>("features")) {}
  std::string describe() const override { return kind_; }
  nn::Sequential& features() { return features_; }
  void add_classifier(std::int64_t in, double dropout, const Options& o) {
    classifier_ = &add<nn::Sequential>("classifier");
    classifier_->emplace<nn::Dropout>(dropout_rate(o, dropout));
    classifier_->emplace<Linear>(in, o.classes);
  }

 protected:
  Value forward(Value x) override { return (*classifier_)(flatten_(adaptive_avg_pool2d(features_(std::move(x)), {1, 1}))); }

 private:
  std::string kind_;
  nn::Sequential& features_;
  nn::Sequential* classifier_ = nullptr;
  nn::Flatten flatten_;
};

class InvertedResidual : public RepeatedBlock {
 public:
  InvertedResidual(std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t expansion)
      : shortcut_(stride == 1 && in == out), conv_(add<nn::Sequential>("conv")) {
    const std::int64_t hidden = in * expansion;
    if (expansion != 1) conv_.emplace<ConvNorm<nn::ReLU6>>(in, hidden, 1);
    conv_.emplace<ConvNorm<nn::ReLU6>>(hidden, hidden, 3, stride, hidden);
    conv_.emplace<Conv2d>(hidden, out, square_kernel(1, 1, 0, Bias::no));
    conv_.emplace<BatchNorm2d>(out);
  }
  std::string describe() const override { return "InvertedResidual"; }

 protected:
  Value forward(Value x) override {
    if (!shortcut_) return conv_(std::move(x));
    Value y = conv_(x);
    return std::move(x) + std::move(y);
  }

 private:
  bool shortcut_;
  nn::Sequential& conv_;
};

/// Each channel scaled by a small network of all channels' means.
class SqueezeExcitation : public nn::Module {
 public:
  SqueezeExcitation(std::int64_t channels, std::int64_t squeezed)
      : fc1_(add<Conv2d>("fc1", channels, squeezed, square_kernel(1))), fc2_(add<Conv2d>("fc2", squeezed, channels, square_kernel(1))) {}
  std::string describe() const override { return "SqueezeExcitation"; }

 protected:
  Value forward(Value x) override {
    Value scale = sigmoid(fc2_(silu(fc1_(adaptive_avg_pool2d(x, {1, 1})))));
    return std::move(x) * std::move(scale);
  }

 private:
  Conv2d &fc1_, &fc2_;
};

/// Drops a sample's whole branch in training with probability `rate`, and scales the others by 1 / (1 - rate).
class StochasticDepth : public nn::Module {
 public:
  explicit StochasticDepth(double rate) : rate_(rate) {}
  std::string describe() const override { return fmt::format("StochasticDepth({})", rate_); }

 protected:
  Value forward(Value x) override {
    if (!training() || rate_ == 0) return x;
    Value keep = dropout(full(x.session(), {{x.shape()[0], 1, 1, 1}, x.dtype()}, 1), rate_);
    return std::move(x) * std::move(keep);
  }

 private:
  double rate_;
};

/// Channels scaled and rounded to a multiple of 8, never down by more than a tenth.
std::int64_t scaled_channels(std::int64_t channels, double factor) {
  const double exact = static_cast<double>(channels) * factor;
  const std::int64_t rounded = std::max<std::int64_t>(8, static_cast<std::int64_t>(exact + 4) / 8 * 8);
  return static_cast<double>(rounded) < 0.9 * exact ? rounded + 8 : rounded;
}

class MBConv : public RepeatedBlock {
 public:
  MBConv(std::int64_t in, std::int64_t out, std::int64_t stride, const Stage& stage, double drop)
      : shortcut_(stride == 1 && in == out), block_(add<nn::Sequential>("block")) {
    const std::int64_t hidden = scaled_channels(in, static_cast<double>(stage.expansion));
    if (hidden != in) block_.emplace<ConvNorm<nn::SiLU>>(in, hidden, 1);
    block_.emplace<ConvNorm<nn::SiLU>>(hidden, hidden, stage.kernel, stride, hidden);
    block_.emplace<SqueezeExcitation>(hidden, std::max<std::int64_t>(1, in / 4));
    block_.emplace<ConvNorm<nn::Identity>>(hidden, out, 1);
    stochastic_depth_ = &add<StochasticDepth>("stochastic_depth", drop);
  }
  std::string describe() const override { return "MBConv"; }

 protected:
  Value forward(Value x) override {
    if (!shortcut_) return block_(std::move(x));
    Value y = (*stochastic_depth_)(block_(x));
    return std::move(y) + std::move(x);
  }

 private:
  bool shortcut_;
  nn::Sequential& block_;
  StochasticDepth* stochastic_depth_ = nullptr;
};

}  // namespace

std::unique_ptr<nn::Module> mobilenet_v2(const Options& o) {
  static constexpr std::array<Stage, 7> kStages{
      {{1, 3, 1, 16, 1}, {6, 3, 2, 24, 2}, {6, 3, 2, 32, 3}, {6, 3, 2, 64, 4}, {6, 3, 1, 96, 3}, {6, 3, 2, 160, 3}, {6, 3, 1, 320, 1}}};
  auto model = std::make_unique<Mobile>("MobileNetV2");
  std::int64_t in = 32;
  model->features().emplace<ConvNorm<nn::ReLU6>>(o.channels, in, 3, 2);
  for (const Stage& stage : kStages)
    for (std::int64_t block = 0; block < stage.blocks; ++block) {
      model->features().emplace<InvertedResidual>(in, stage.out, block == 0 ? stage.stride : 1, stage.expansion);
      in = stage.out;
    }
  model->features().emplace<ConvNorm<nn::ReLU6>>(in, 1280, 1);
  model->add_classifier(1280, 0.2, o);
  start_convolutions_by_fan_out(*model);
  model->visit_all<Linear>([](Linear& linear) {
    linear.weight().initialise = nn::normal(0.01);
    linear.bias()->initialise = nn::constant(0);
  });
  return model;
}

std::unique_ptr<nn::Module> efficientnet_b4(const Options& o) {
  static constexpr std::array<Stage, 7> kStages{
      {{1, 3, 1, 16, 1}, {6, 3, 2, 24, 2}, {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3}, {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}}};
  constexpr double kWidth = 1.4, kDepth = 1.8, kDrop = 0.2;
  const auto depth = [](const Stage& s) { return static_cast<std::int64_t>(std::ceil(static_cast<double>(s.blocks) * kDepth)); };
  std::int64_t total = 0, built = 0;
  for (const Stage& stage : kStages) total += depth(stage);
  auto model = std::make_unique<Mobile>("EfficientNetB4");
  std::int64_t in = scaled_channels(32, kWidth);
  model->features().emplace<ConvNorm<nn::SiLU>>(o.channels, in, 3, 2);
  for (const Stage& stage : kStages) {
    auto& blocks = model->features().emplace<nn::Sequential>();
    const std::int64_t out = scaled_channels(stage.out, kWidth);
    for (std::int64_t block = 0; block < depth(stage); ++block, ++built) {
      const double drop = o.dropout == 0.0 ? 0 : kDrop * static_cast<double>(built) / static_cast<double>(total);
      blocks.emplace<MBConv>(in, out, block == 0 ? stage.stride : 1, stage, drop);
      in = out;
    }
  }
  model->features().emplace<ConvNorm<nn::SiLU>>(in, 4 * in, 1);
  model->add_classifier(4 * in, 0.4, o);
  start_convolutions_by_fan_out(*model);
  model->visit_all<Linear>([](Linear& linear) {
    linear.weight().initialise = nn::uniform_within(1 / std::sqrt(static_cast<double>(linear.weight().spec.shape.back())));
    linear.bias()->initialise = nn::constant(0);
  });
  return model;
}

}  // namespace gemel::models
