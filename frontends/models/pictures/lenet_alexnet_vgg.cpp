// LeNet, AlexNet and VGG: convolutions, then linear layers; and a perceptron, of linear layers alone.
// Sources: Y. LeCun et al., Gradient-based learning applied to document recognition, 1998 (here with ReLU and max pooling);
// A. Krizhevsky, One weird trick for parallelizing convolutional neural networks, 2014; K. Simonyan, A. Zisserman, Very deep
// convolutional networks for large-scale image recognition, 2015.
#include <fmt/format.h>

#include <span>
#include <string>

#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "frontends/models/pictures/architectures.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"

namespace gemel::models {
namespace {

using nn::Conv2d;
using nn::Linear;
using nn::square_kernel;
using nn::square_window;

class LeNet : public nn::Module {
 public:
  explicit LeNet(const Options& o)
      : conv1_(add<Conv2d>("conv1", o.channels, 6, square_kernel(5))),
        conv2_(add<Conv2d>("conv2", 6, 16, square_kernel(5))),
        fc1_(add<Linear>("fc1", 16 * 5 * 5, 120)),
        fc2_(add<Linear>("fc2", 120, 84)),
        fc3_(add<Linear>("fc3", 84, o.classes)) {}
  std::string describe() const override { return "LeNet"; }

 protected:
  Value forward(Value x) override {
    const Window halve = square_window(2);
    x = max_pool2d(relu(conv1_(std::move(x))), halve);
    x = flatten_(max_pool2d(relu(conv2_(std::move(x))), halve));
    return fc3_(relu(fc2_(relu(fc1_(std::move(x))))));
  }

 private:
  Conv2d &conv1_, &conv2_;
  Linear &fc1_, &fc2_, &fc3_;
  nn::Flatten flatten_;
};

/// Three linear layers, 256 wide, on pictures of 16 x 16: a step of few and small kernels.
class Perceptron : public nn::Module {
 public:
  explicit Perceptron(const Options& o)
      : channels_(o.channels),
        fc1_(add<Linear>("fc1", kSide * kSide * o.channels, 256)),
        fc2_(add<Linear>("fc2", 256, 256)),
        fc3_(add<Linear>("fc3", 256, o.classes)) {}
  std::string describe() const override { return "Perceptron"; }

 protected:
  Value forward(Value x) override {
    if (const Shape& s = x.shape(); s.rank() != 4 || s != Shape{s[0], kSide, kSide, channels_})
      throw ShapeError(fmt::format("perceptron: x is {}; accepted: [N, {}, {}, {}], as of pictures {}x{}x{}", to_string(s), kSide, kSide, channels_, channels_,
                                   kSide, kSide));
    return fc3_(relu(fc2_(relu(fc1_(flatten_(std::move(x)))))));
  }

 private:
  static constexpr std::int64_t kSide = 16;
  std::int64_t channels_;
  Linear &fc1_, &fc2_, &fc3_;
  nn::Flatten flatten_;
};

/// features, avgpool, flatten, classifier.
class Classic : public nn::Module {
 public:
  Classic(std::string kind, const Pair& pooled)
      : features_(add<nn::Sequential>("features")),
        avgpool_(add<nn::AdaptiveAvgPool2d>("avgpool", pooled)),
        classifier_(add<nn::Sequential>("classifier")),
        kind_(std::move(kind)) {}
  std::string describe() const override { return kind_; }
  nn::Sequential& features() { return features_; }
  nn::Sequential& classifier() { return classifier_; }

 protected:
  Value forward(Value x) override { return classifier_(flatten_(avgpool_(features_(std::move(x))))); }

 private:
  nn::Sequential& features_;
  nn::AdaptiveAvgPool2d& avgpool_;
  nn::Sequential& classifier_;
  nn::Flatten flatten_;
  std::string kind_;
};

void add_convolution(nn::Sequential& to, std::int64_t in, std::int64_t out, const nn::ConvolutionOptions& options) {
  to.emplace<Conv2d>(in, out, options);
  to.emplace<nn::ReLU>();
}

constexpr std::int64_t kPool = 0;  // in a VGG plan; other numbers are a convolution's channels

std::unique_ptr<nn::Module> vgg(std::string kind, std::span<const std::int64_t> plan, const Options& o) {
  auto model = std::make_unique<Classic>(std::move(kind), Pair{7, 7});
  std::int64_t channels = o.channels;
  for (const std::int64_t layer : plan) {
    if (layer == kPool) {
      model->features().emplace<nn::MaxPool2d>(square_window(2));
      continue;
    }
    add_convolution(model->features(), channels, layer, square_kernel(3, 1, 1));
    channels = layer;
  }
  std::int64_t in = channels * 7 * 7;
  for (int hidden = 0; hidden < 2; ++hidden) {
    model->classifier().emplace<Linear>(in, 4096);
    model->classifier().emplace<nn::ReLU>();
    model->classifier().emplace<nn::Dropout>(dropout_rate(o, 0.5));
    in = 4096;
  }
  model->classifier().emplace<Linear>(in, o.classes);
  start_convolutions_by_fan_out(*model);
  model->visit_all<Linear>([](Linear& linear) {
    linear.weight().initialise = nn::normal(0.01);
    linear.bias()->initialise = nn::constant(0);
  });
  return model;
}

}  // namespace

std::unique_ptr<nn::Module> perceptron(const Options& options) { return std::make_unique<Perceptron>(options); }
std::unique_ptr<nn::Module> lenet(const Options& options) { return std::make_unique<LeNet>(options); }

std::unique_ptr<nn::Module> alexnet(const Options& o) {
  auto model = std::make_unique<Classic>("AlexNet", Pair{6, 6});
  nn::Sequential& features = model->features();
  add_convolution(features, o.channels, 64, square_kernel(11, 4, 2));
  features.emplace<nn::MaxPool2d>(square_window(3, 2));
  add_convolution(features, 64, 192, square_kernel(5, 1, 2));
  features.emplace<nn::MaxPool2d>(square_window(3, 2));
  add_convolution(features, 192, 384, square_kernel(3, 1, 1));
  add_convolution(features, 384, 256, square_kernel(3, 1, 1));
  add_convolution(features, 256, 256, square_kernel(3, 1, 1));
  features.emplace<nn::MaxPool2d>(square_window(3, 2));
  std::int64_t in = 256 * 6 * 6;
  for (int hidden = 0; hidden < 2; ++hidden) {
    model->classifier().emplace<nn::Dropout>(dropout_rate(o, 0.5));
    model->classifier().emplace<Linear>(in, 4096);
    model->classifier().emplace<nn::ReLU>();
    in = 4096;
  }
  model->classifier().emplace<Linear>(in, o.classes);
  return model;
}

std::unique_ptr<nn::Module> vgg16(const Options& options) {
  static constexpr std::int64_t plan[] = {64, 64, kPool, 128, 128, kPool, 256, 256, 256, kPool, 512, 512, 512, kPool, 512, 512, 512, kPool};
  return vgg("VGG16", plan, options);
}

std::unique_ptr<nn::Module> vgg19(const Options& options) {
  static constexpr std::int64_t plan[] = {64, 64, kPool, 128, 128, kPool, 256, 256, 256, 256, kPool, 512, 512, 512, 512, kPool, 512, 512, 512, 512, kPool};
  return vgg("VGG19", plan, options);
}

}  // namespace gemel::models
