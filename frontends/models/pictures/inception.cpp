// Inception v3, with its auxiliary classifier in training.
// Source: C. Szegedy et al., Rethinking the Inception architecture for computer vision, 2016.
#include <string>
#include <utility>
#include <vector>

#include "engine/ops/ops.h"
#include "frontends/models/blocks.h"
#include "frontends/models/pictures/architectures.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"

namespace gemel::models {
namespace {

using nn::Linear;
using nn::square_window;

constexpr std::int64_t kChannelAxis = 3;

class BasicConv : public nn::Module {
 public:
  BasicConv(std::int64_t in, std::int64_t out, const Pair& kernel, const Pair& padding = {0, 0}, std::int64_t stride = 1)
      : conv_(add<nn::Conv2d>("conv", in, out, nn::ConvolutionOptions{kernel, {.stride = {stride, stride}, .padding = padding}, nn::Bias::no})),
        bn_(add<nn::BatchNorm2d>("bn", out, nn::BatchNormOptions{.eps = 1e-3})) {}
  std::string describe() const override { return "BasicConv2d"; }

 protected:
  Value forward(Value x) override { return relu(bn_(conv_(std::move(x)))); }

 private:
  nn::Conv2d& conv_;
  nn::BatchNorm2d& bn_;
};

/// Branches side by side, joined along the channels.
class Mixed : public RepeatedBlock {
 public:
  std::string describe() const override { return "Inception"; }

 protected:
  using Branch = std::vector<BasicConv*>;
  BasicConv* conv(std::string name, std::int64_t in, std::int64_t out, const Pair& kernel, const Pair& padding = {0, 0}) {
    return &add<BasicConv>(std::move(name), in, out, kernel, padding, 1);
  }
  /// 3 x 3 in steps of 2.
  BasicConv* halving(std::string name, std::int64_t in, std::int64_t out) { return &add<BasicConv>(std::move(name), in, out, Pair{3, 3}, Pair{0, 0}, 2); }
  static Value run(const Branch& branch, Value x) {
    for (BasicConv* layer : branch) x = (*layer)(std::move(x));
    return x;
  }
  static Value mean_around(Value x) { return avg_pool2d(std::move(x), square_window(3, 1, 1)); }
  static Value halved(Value x) { return max_pool2d(std::move(x), square_window(3, 2)); }
};

class InceptionA : public Mixed {
 public:
  InceptionA(std::int64_t in, std::int64_t pooled)
      : one_{conv("branch1x1", in, 64, {1, 1})},
        five_{conv("branch5x5_1", in, 48, {1, 1}), conv("branch5x5_2", 48, 64, {5, 5}, {2, 2})},
        three_{conv("branch3x3dbl_1", in, 64, {1, 1}), conv("branch3x3dbl_2", 64, 96, {3, 3}, {1, 1}), conv("branch3x3dbl_3", 96, 96, {3, 3}, {1, 1})},
        pool_{conv("branch_pool", in, pooled, {1, 1})} {}

 protected:
  Value forward(Value x) override { return concatenate(list(run(one_, x), run(five_, x), run(three_, x), run(pool_, mean_around(x))), kChannelAxis); }

 private:
  Branch one_, five_, three_, pool_;
};

class InceptionB : public Mixed {
 public:
  explicit InceptionB(std::int64_t in)
      : three_{halving("branch3x3", in, 384)},
        double_{conv("branch3x3dbl_1", in, 64, {1, 1}), conv("branch3x3dbl_2", 64, 96, {3, 3}, {1, 1}), halving("branch3x3dbl_3", 96, 96)} {}

 protected:
  Value forward(Value x) override { return concatenate(list(run(three_, x), run(double_, x), halved(x)), kChannelAxis); }

 private:
  Branch three_, double_;
};

class InceptionC : public Mixed {
 public:
  InceptionC(std::int64_t in, std::int64_t width)
      : one_{conv("branch1x1", in, 192, {1, 1})},
        seven_{conv("branch7x7_1", in, width, {1, 1}), conv("branch7x7_2", width, width, {1, 7}, {0, 3}), conv("branch7x7_3", width, 192, {7, 1}, {3, 0})},
        double_{conv("branch7x7dbl_1", in, width, {1, 1}), conv("branch7x7dbl_2", width, width, {7, 1}, {3, 0}),
                conv("branch7x7dbl_3", width, width, {1, 7}, {0, 3}), conv("branch7x7dbl_4", width, width, {7, 1}, {3, 0}),
                conv("branch7x7dbl_5", width, 192, {1, 7}, {0, 3})},
        pool_{conv("branch_pool", in, 192, {1, 1})} {}

 protected:
  Value forward(Value x) override { return concatenate(list(run(one_, x), run(seven_, x), run(double_, x), run(pool_, mean_around(x))), kChannelAxis); }

 private:
  Branch one_, seven_, double_, pool_;
};

class InceptionD : public Mixed {
 public:
  explicit InceptionD(std::int64_t in)
      : three_{conv("branch3x3_1", in, 192, {1, 1}), halving("branch3x3_2", 192, 320)},
        seven_{conv("branch7x7x3_1", in, 192, {1, 1}), conv("branch7x7x3_2", 192, 192, {1, 7}, {0, 3}), conv("branch7x7x3_3", 192, 192, {7, 1}, {3, 0}),
               halving("branch7x7x3_4", 192, 192)} {}

 protected:
  Value forward(Value x) override { return concatenate(list(run(three_, x), run(seven_, x), halved(x)), kChannelAxis); }

 private:
  Branch three_, seven_;
};

class InceptionE : public Mixed {
 public:
  explicit InceptionE(std::int64_t in)
      : one_{conv("branch1x1", in, 320, {1, 1})},
        three_{conv("branch3x3_1", in, 384, {1, 1})},
        three_a_{conv("branch3x3_2a", 384, 384, {1, 3}, {0, 1})},
        three_b_{conv("branch3x3_2b", 384, 384, {3, 1}, {1, 0})},
        double_{conv("branch3x3dbl_1", in, 448, {1, 1}), conv("branch3x3dbl_2", 448, 384, {3, 3}, {1, 1})},
        double_a_{conv("branch3x3dbl_3a", 384, 384, {1, 3}, {0, 1})},
        double_b_{conv("branch3x3dbl_3b", 384, 384, {3, 1}, {1, 0})},
        pool_{conv("branch_pool", in, 192, {1, 1})} {}

 protected:
  Value forward(Value x) override {
    const Value three = run(three_, x), twice = run(double_, x);
    return concatenate(list(run(one_, x), run(three_a_, three), run(three_b_, three), run(double_a_, twice), run(double_b_, twice), run(pool_, mean_around(x))),
                       kChannelAxis);
  }

 private:
  Branch one_, three_, three_a_, three_b_, double_, double_a_, double_b_, pool_;
};

class Auxiliary : public nn::Module {
 public:
  Auxiliary(std::int64_t in, std::int64_t classes)
      : conv0_(add<BasicConv>("conv0", in, 128, Pair{1, 1})), conv1_(add<BasicConv>("conv1", 128, 768, Pair{5, 5})), fc_(add<Linear>("fc", 768, classes)) {}
  std::string describe() const override { return "InceptionAux"; }
  Linear& fc() { return fc_; }

 protected:
  Value forward(Value x) override {
    x = conv1_(conv0_(avg_pool2d(std::move(x), square_window(5, 3))));
    return fc_(flatten_(adaptive_avg_pool2d(std::move(x), {1, 1})));
  }

 private:
  BasicConv &conv0_, &conv1_;
  Linear& fc_;
  nn::Flatten flatten_;
};

class InceptionV3 : public nn::Module {
 public:
  explicit InceptionV3(const Options& o) {
    before_aux_ = {&add<BasicConv>("Conv2d_1a_3x3", o.channels, 32, Pair{3, 3}, Pair{0, 0}, 2),
                   &add<BasicConv>("Conv2d_2a_3x3", 32, 32, Pair{3, 3}),
                   &add<BasicConv>("Conv2d_2b_3x3", 32, 64, Pair{3, 3}, Pair{1, 1}),
                   &add<nn::MaxPool2d>("maxpool1", square_window(3, 2)),
                   &add<BasicConv>("Conv2d_3b_1x1", 64, 80, Pair{1, 1}),
                   &add<BasicConv>("Conv2d_4a_3x3", 80, 192, Pair{3, 3}),
                   &add<nn::MaxPool2d>("maxpool2", square_window(3, 2)),
                   &add<InceptionA>("Mixed_5b", 192, 32),
                   &add<InceptionA>("Mixed_5c", 256, 64),
                   &add<InceptionA>("Mixed_5d", 288, 64),
                   &add<InceptionB>("Mixed_6a", 288),
                   &add<InceptionC>("Mixed_6b", 768, 128),
                   &add<InceptionC>("Mixed_6c", 768, 160),
                   &add<InceptionC>("Mixed_6d", 768, 160),
                   &add<InceptionC>("Mixed_6e", 768, 192)};
    aux_ = &add<Auxiliary>("AuxLogits", 768, o.classes);
    after_aux_ = {&add<InceptionD>("Mixed_7a", 768), &add<InceptionE>("Mixed_7b", 1280), &add<InceptionE>("Mixed_7c", 2048),
                  &add<nn::AdaptiveAvgPool2d>("avgpool", Pair{1, 1}), &add<nn::Dropout>("dropout", dropout_rate(o, 0.5))};
    fc_ = &add<Linear>("fc", 2048, o.classes);
    visit_all<nn::Conv2d>([](nn::Conv2d& conv) { conv.weight().initialise = nn::normal(0.1); });
    fc_->weight().initialise = nn::normal(0.1);
    aux_->fc().weight().initialise = nn::normal(0.001);
  }
  std::string describe() const override { return "InceptionV3"; }
  std::vector<std::string> output_layers() const override { return {"fc", "AuxLogits.fc"}; }
  Values take_auxiliary() override { return std::exchange(auxiliary_, {}); }

 protected:
  Value forward(Value x) override {
    for (nn::Module* layer : before_aux_) x = (*layer)(std::move(x));
    auxiliary_.clear();
    if (training()) auxiliary_.push_back((*aux_)(x));
    for (nn::Module* layer : after_aux_) x = (*layer)(std::move(x));
    return (*fc_)(flatten_(std::move(x)));
  }

 private:
  std::vector<nn::Module*> before_aux_, after_aux_;
  Auxiliary* aux_ = nullptr;
  Linear* fc_ = nullptr;
  nn::Flatten flatten_;
  Values auxiliary_;
};

}  // namespace

std::unique_ptr<nn::Module> inception_v3(const Options& options) { return std::make_unique<InceptionV3>(options); }

}  // namespace gemel::models
