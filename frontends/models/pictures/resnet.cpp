// ResNet. The stride of a bottleneck lies in its 3 x 3 convolution, as in torchvision.
// Source: K. He et al., Deep residual learning for image recognition, 2016.
#include <array>
#include <string>

#include "engine/ops/ops.h"
#include "frontends/models/blocks.h"
#include "frontends/models/pictures/architectures.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"

namespace gemel::models {
namespace {

using nn::BatchNorm2d;
using nn::Bias;
using nn::Conv2d;
using nn::square_kernel;

nn::ConvolutionOptions plain_kernel(std::int64_t kernel, std::int64_t stride = 1) { return square_kernel(kernel, stride, kernel / 2, Bias::no); }

/// y = relu(branch(x) + shortcut(x)), the shortcut a 1 x 1 convolution where the shape changes.
class Block : public RepeatedBlock {
 public:
  std::string describe() const override { return kind_; }

 protected:
  Block(const char* kind, std::int64_t in, std::int64_t out, std::int64_t stride) : kind_(kind), in_(in), out_(out), stride_(stride) {}
  /// After the branch's own layers, so that the state comes in torchvision's order.
  void add_downsample() {
    if (stride_ == 1 && in_ == out_) return;
    downsample_ = &add<nn::Sequential>("downsample");
    downsample_->emplace<Conv2d>(in_, out_, plain_kernel(1, stride_));
    downsample_->emplace<BatchNorm2d>(out_);
  }
  virtual Value branch(Value x) = 0;
  Value forward(Value x) override {
    Value y = branch(x);
    if (downsample_) x = (*downsample_)(std::move(x));
    return relu(std::move(y) + std::move(x));
  }

 private:
  const char* kind_;
  std::int64_t in_, out_, stride_;
  nn::Sequential* downsample_ = nullptr;
};

class BasicBlock : public Block {
 public:
  static constexpr std::int64_t kExpansion = 1;
  BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride)
      : Block("BasicBlock", in, width, stride),
        conv1_(add<Conv2d>("conv1", in, width, plain_kernel(3, stride))),
        bn1_(add<BatchNorm2d>("bn1", width)),
        conv2_(add<Conv2d>("conv2", width, width, plain_kernel(3))),
        bn2_(add<BatchNorm2d>("bn2", width)) {
    add_downsample();
  }

 protected:
  Value branch(Value x) override { return bn2_(conv2_(relu(bn1_(conv1_(std::move(x)))))); }

 private:
  Conv2d& conv1_;
  BatchNorm2d& bn1_;
  Conv2d& conv2_;
  BatchNorm2d& bn2_;
};

class Bottleneck : public Block {
 public:
  static constexpr std::int64_t kExpansion = 4;
  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride)
      : Block("Bottleneck", in, kExpansion * width, stride),
        conv1_(add<Conv2d>("conv1", in, width, plain_kernel(1))),
        bn1_(add<BatchNorm2d>("bn1", width)),
        conv2_(add<Conv2d>("conv2", width, width, plain_kernel(3, stride))),
        bn2_(add<BatchNorm2d>("bn2", width)),
        conv3_(add<Conv2d>("conv3", width, kExpansion * width, plain_kernel(1))),
        bn3_(add<BatchNorm2d>("bn3", kExpansion * width)) {
    add_downsample();
  }

 protected:
  Value branch(Value x) override {
    x = relu(bn1_(conv1_(std::move(x))));
    x = relu(bn2_(conv2_(std::move(x))));
    return bn3_(conv3_(std::move(x)));
  }

 private:
  Conv2d& conv1_;
  BatchNorm2d& bn1_;
  Conv2d& conv2_;
  BatchNorm2d& bn2_;
  Conv2d& conv3_;
  BatchNorm2d& bn3_;
};

template <class B>
class ResNet : public nn::Module {
 public:
  ResNet(std::string kind, const std::array<int, 4>& depths, const Options& o)
      : kind_(std::move(kind)), conv1_(add<Conv2d>("conv1", o.channels, 64, square_kernel(7, 2, 3, Bias::no))), bn1_(add<BatchNorm2d>("bn1", 64)) {
    std::int64_t in = 64;
    for (std::size_t stage = 0; stage < depths.size(); ++stage) {
      const std::int64_t width = std::int64_t{64} << stage;
      layers_[stage] = &add<nn::Sequential>("layer" + std::to_string(stage + 1));
      for (int block = 0; block < depths[stage]; ++block) {
        layers_[stage]->template emplace<B>(in, width, block == 0 && stage > 0 ? 2 : 1);
        in = B::kExpansion * width;
      }
    }
    avgpool_ = &add<nn::AdaptiveAvgPool2d>("avgpool", Pair{1, 1});
    fc_ = &add<nn::Linear>("fc", in, o.classes);
    start_convolutions_by_fan_out(*this);
  }
  std::string describe() const override { return kind_; }

 protected:
  Value forward(Value x) override {
    x = max_pool2d(relu(bn1_(conv1_(std::move(x)))), nn::square_window(3, 2, 1));
    for (nn::Sequential* layer : layers_) x = (*layer)(std::move(x));
    return (*fc_)(flatten_((*avgpool_)(std::move(x))));
  }

 private:
  std::string kind_;
  Conv2d& conv1_;
  BatchNorm2d& bn1_;
  std::array<nn::Sequential*, 4> layers_{};
  nn::AdaptiveAvgPool2d* avgpool_ = nullptr;
  nn::Linear* fc_ = nullptr;
  nn::Flatten flatten_;
};

}  // namespace

std::unique_ptr<nn::Module> resnet18(const Options& options) { return std::make_unique<ResNet<BasicBlock>>("ResNet18", std::array{2, 2, 2, 2}, options); }
std::unique_ptr<nn::Module> resnet50(const Options& options) { return std::make_unique<ResNet<Bottleneck>>("ResNet50", std::array{3, 4, 6, 3}, options); }
std::unique_ptr<nn::Module> resnet152(const Options& options) { return std::make_unique<ResNet<Bottleneck>>("ResNet152", std::array{3, 8, 36, 3}, options); }

}  // namespace gemel::models
