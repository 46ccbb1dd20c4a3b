// The model zoo: torchvision's counts, names and shapes. Large models are only declared, never given memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "frontends/nn/state/state_dict.h"
#include "frontends/nn/summary.h"
#include "tests/support/message_of.h"

namespace gemel::models {
namespace {

using testing::message_of;

struct Known {
  const char* name;
  std::size_t tensors;
  std::int64_t parameters;
};
// torchvision's own, with 1000 classes.
constexpr Known kKnown[] = {{"alexnet", 16, 61'100'840},      {"vgg16", 32, 138'357'544},           {"vgg19", 38, 143'667'240},
                            {"resnet18", 122, 11'689'512},    {"resnet50", 320, 25'557'032},        {"resnet152", 932, 60'192'808},
                            {"mobilenet_v2", 314, 3'504'872}, {"efficientnet_b4", 706, 19'341'616}, {"inception_v3", 580, 27'161'264}};

std::vector<std::string> state_names(std::string_view model) {
  std::vector<std::string> out;
  for (const NamedSpec& s : nn::state_specs(*make(model))) out.push_back(s.name);
  return out;
}

class TorchvisionModel : public ::testing::TestWithParam<Known> {};
INSTANTIATE_TEST_SUITE_P(Models, TorchvisionModel, ::testing::ValuesIn(kKnown), [](const auto& i) { return std::string(i.param.name); });

TEST_P(TorchvisionModel, has_as_many_tensors_and_parameters) {
  const auto model = make(GetParam().name);
  EXPECT_EQ(nn::state_specs(*model).size(), GetParam().tensors);
  EXPECT_EQ(model->parameter_elements(), GetParam().parameters);
}

TEST_P(TorchvisionModel, takes_images_of_several_sizes) {
  const auto model = make(GetParam().name, {.classes = 7});
  // In training Inception's auxiliary classifier convolves 5 x 5 means: 299 is the least size, as in torchvision.
  const bool inception = std::string_view(GetParam().name) == "inception_v3";
  for (const std::int64_t size : inception ? std::vector<std::int64_t>{299, 330} : std::vector<std::int64_t>{64, 97, 224}) {
    const auto layers = nn::summarise(*model, {f32({2, size, size, 3})});
    EXPECT_EQ(layers.at(0).path, "");
    EXPECT_EQ(layers.at(0).output, f32({2, 7}));
  }
  EXPECT_THROW(model->parameters(), UsageError) << "a summary leaves no memory behind";
}

TEST(Models, take_their_usual_input) {
  for (const std::string_view name : names()) {
    const auto model = make(name);
    model->eval();
    const Shape input = usual_input(name);
    EXPECT_EQ(nn::summarise(*model, {f32({1, input[1], input[2], input[0]})}).at(0).output, f32({1, 1000})) << name;
  }
  EXPECT_EQ(usual_input("lenet"), (Shape{3, 32, 32}));
  EXPECT_EQ(usual_input("resnet50"), (Shape{3, 224, 224}));
  EXPECT_EQ(usual_input("inception_v3"), (Shape{3, 299, 299}));
  EXPECT_THROW(usual_input("resnet"), UsageError);
}

TEST(Models, train_on_their_small_input) {
  for (const std::string_view name : names()) {
    const auto model = make(name);
    model->train();
    const Shape input = small_input(name);
    EXPECT_EQ(nn::summarise(*model, {f32({2, input[1], input[2], input[0]})}).at(0).output, f32({2, 1000})) << name;
  }
  EXPECT_EQ(small_input("resnet18"), (Shape{3, 32, 32}));
  EXPECT_EQ(small_input("perceptron"), (Shape{3, 16, 16}));
}

TEST(Models, resnets_names_are_torchvisions) {
  const auto names = state_names("resnet18");
  const std::vector<std::string> start{"conv1.weight",         "bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var", "bn1.num_batches_tracked",
                                       "layer1.0.conv1.weight"};
  EXPECT_EQ(std::vector<std::string>(names.begin(), names.begin() + 7), start);
  EXPECT_EQ(names[names.size() - 2], "fc.weight");
  const auto deep = state_names("resnet50");
  const auto third = std::ranges::find(deep, "layer1.0.bn3.num_batches_tracked");
  ASSERT_NE(third, deep.end());
  EXPECT_EQ(*(third + 1), "layer1.0.downsample.0.weight");  // the branch before the shortcut
  EXPECT_EQ(*(third + 2), "layer1.0.downsample.1.weight");
  EXPECT_EQ(std::ranges::count(names, "layer1.0.downsample.0.weight"), 0);  // 64 channels stay 64
}

TEST(Models, classic_names_are_torchvisions) {
  const auto vgg = state_names("vgg16");
  EXPECT_EQ(vgg[24], "features.28.weight");
  EXPECT_EQ(vgg[26], "classifier.0.weight");
  EXPECT_EQ(vgg[28], "classifier.3.weight");
  EXPECT_EQ(vgg[30], "classifier.6.weight");
  EXPECT_EQ(state_names("alexnet"),
            (std::vector<std::string>{"features.0.weight", "features.0.bias", "features.3.weight", "features.3.bias", "features.6.weight", "features.6.bias",
                                      "features.8.weight", "features.8.bias", "features.10.weight", "features.10.bias", "classifier.1.weight",
                                      "classifier.1.bias", "classifier.4.weight", "classifier.4.bias", "classifier.6.weight", "classifier.6.bias"}));
  EXPECT_EQ(state_names("lenet"), (std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight", "fc1.bias", "fc2.weight",
                                                            "fc2.bias", "fc3.weight", "fc3.bias"}));
}

TEST(Models, mobile_and_inception_names_are_torchvisions) {
  EXPECT_EQ(state_names("mobilenet_v2")[6], "features.1.conv.0.0.weight");
  EXPECT_EQ(state_names("mobilenet_v2").back(), "classifier.1.bias");
  const auto efficient = state_names("efficientnet_b4");
  EXPECT_EQ(efficient[6], "features.1.0.block.0.0.weight");
  EXPECT_EQ(efficient[12], "features.1.0.block.1.fc1.weight");
  EXPECT_EQ(state_names("inception_v3")[0], "Conv2d_1a_3x3.conv.weight");
  EXPECT_EQ(std::ranges::count(state_names("inception_v3"), "Mixed_7c.branch3x3dbl_3b.bn.num_batches_tracked"), 1);
}

TEST(Models, efficientnets_blocks_drop_more_with_depth) {
  auto model = make("efficientnet_b4");
  EXPECT_EQ(model->find("features.1.0.stochastic_depth")->describe(), "StochasticDepth(0)");
  EXPECT_EQ(model->find("features.7.1.stochastic_depth")->describe(), "StochasticDepth(0.19375)");  // 0.2 * 31 / 32
}

TEST(Models, inception_gives_its_auxiliary_logits_in_training_only) {
  auto model = make("inception_v3", {.classes = 7});
  nn::summarise(*model, {f32({2, 299, 299, 3})});
  const Values auxiliary = model->take_auxiliary();
  ASSERT_EQ(auxiliary.size(), 1u);
  EXPECT_EQ(auxiliary[0].spec(), f32({2, 7}));
  EXPECT_TRUE(model->take_auxiliary().empty());
  model->eval();
  EXPECT_EQ(nn::summarise(*model, {f32({2, 75, 75, 3})}).at(0).output, f32({2, 7}));
  EXPECT_TRUE(model->take_auxiliary().empty());
  EXPECT_EQ(model->output_layers(), (std::vector<std::string>{"fc", "AuxLogits.fc"}));
}

TEST(Models, bottlenecks_stride_in_their_3x3_convolution) {
  auto model = make("resnet50");
  EXPECT_EQ(model->find("layer2.0.conv1")->describe(), "Conv2d(256, 128, kernel 1, no bias)");
  EXPECT_EQ(model->find("layer2.0.conv2")->describe(), "Conv2d(128, 128, kernel 3, stride 2, padding 1, no bias)");
  EXPECT_EQ(model->find("layer2.0.downsample.0")->describe(), "Conv2d(256, 512, kernel 1, stride 2, no bias)");
}

TEST(Models, resnet50_costs_what_is_published) {
  const auto layers = nn::summarise(*make("resnet50"), {f32({1, 224, 224, 3})});
  double convolutions = 0;
  for (const auto& layer : layers)
    if (layer.description.rfind("Conv2d", 0) == 0) convolutions += static_cast<double>(layer.flops);
  EXPECT_NEAR(convolutions / 1e9, 2 * 4.087, 0.01);  // 4.087 G multiply-adds in its convolutions
}

TEST(Models, dropout_is_overridden_everywhere) {
  for (const char* name : {"alexnet", "vgg16"}) {
    int found = 0;
    make(name, {.dropout = 0.25})->visit_all<nn::Dropout>([&found](nn::Dropout& d) {
      EXPECT_EQ(d.rate(), 0.25);
      ++found;
    });
    EXPECT_EQ(found, 2);
    make(name)->visit_all<nn::Dropout>([](nn::Dropout& d) { EXPECT_EQ(d.rate(), 0.5); });
  }
}

TEST(Models, an_unknown_name_is_refused_with_the_nearest) {
  const std::string text = message_of<UsageError>([] { make("resnet5"); });
  EXPECT_TRUE(text.starts_with("model: resnet5 is unknown; did you mean resnet50? accepted: lenet, perceptron, alexnet, ")) << text;
  EXPECT_THROW(make("resnet18", {.channels = 1}), UsageError);
  EXPECT_THROW(make("lenet", {.channels = 2}), UsageError);
  EXPECT_THROW(make("lenet", {.classes = 0}), UsageError);
}

TEST(Models, a_perceptron_and_linear_layers_refuse_an_input_in_their_own_words) {
  const auto session = Session::reference();
  const auto model = make("perceptron");
  model->materialise(*session);
  EXPECT_EQ(message_of<ShapeError>([&] {
              (*model)(full(*session, f32({2, 32, 32, 3}), 0));
            }),
            "perceptron: x is [2, 32, 32, 3]; accepted: [N, 16, 16, 3], as of pictures 3x16x16");
  const auto lenet = make("lenet", {.classes = 10});
  lenet->materialise(*session);
  EXPECT_EQ(message_of<ShapeError>([&] {
              (*lenet)(full(*session, f32({2, 28, 28, 3}), 0));
            }),
            "fc1: Linear(400, 120): x is [2, 256], of 256 features; accepted: [..., 400]");
}

TEST(Models, convolutions_start_by_their_fan_out) {
  const auto session = Session::reference();
  auto model = make("resnet18");
  auto& conv = dynamic_cast<nn::Conv2d&>(*model->find("layer1.0.conv1"));
  conv.materialise(*session);
  const std::vector<double> w = read(conv.weight().tensor());
  const double n = static_cast<double>(w.size()), variance = std::inner_product(w.begin(), w.end(), w.begin(), 0.0) / n;
  const double expected = 2.0 / (64 * 9);
  EXPECT_NEAR(variance, expected, 4 * expected * std::sqrt(2 / n));  // four deviations of a mean square
}

TEST(Models, vggs_linear_layers_start_small_and_without_bias) {
  const auto session = Session::reference();
  auto model = make("vgg16", {.classes = 10});
  auto& linear = dynamic_cast<nn::Linear&>(*model->find("classifier.6"));
  linear.materialise(*session);
  const std::vector<double> w = read(linear.weight().tensor());
  const double n = static_cast<double>(w.size()), variance = std::inner_product(w.begin(), w.end(), w.begin(), 0.0) / n;
  EXPECT_NEAR(variance, 1e-4, 4e-4 * std::sqrt(2 / n));  // four deviations of a mean square
  EXPECT_EQ(read(linear.bias()->tensor()), std::vector<double>(10, 0.0));
}

TEST(Models, lenet_computes_and_every_parameter_gets_a_gradient) {
  const auto session = Session::reference();
  for (const std::int64_t channels : {1, 3}) {
    auto model = make("lenet", {.classes = 10, .channels = channels}, *session);
    std::vector<double> pixels(static_cast<std::size_t>(2 * 32 * 32 * channels));
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = std::sin(static_cast<double>(i));
    const Value logits = (*model)(session->tensor(f32({2, 32, 32, channels}), pixels));
    EXPECT_EQ(logits.shape(), (Shape{2, 10}));
    const auto trainable = model->parameters().trainable();
    const Values gradients = gradient({sum(square(logits))}, values_of(trainable));
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      ASSERT_TRUE(gradients[i]) << trainable[i].name;
      double largest = 0;
      for (const double g : read(gradients[i])) largest = std::max(largest, std::abs(g));
      EXPECT_GT(largest, 0) << trainable[i].name;
    }
  }
}

TEST(Models, a_frozen_backbone_trains_the_last_layer_only) {
  const auto session = Session::reference();
  auto model = make("resnet18", {.classes = 3});
  model->freeze_backbone();
  model->declare(*session);
  const auto trainable = model->parameters().trainable();
  ASSERT_EQ(trainable.size(), 2u);
  EXPECT_EQ(trainable[0].name, "fc.weight");
  EXPECT_EQ(trainable[1].name, "fc.bias");
}

TEST(Summary, gives_shapes_parameters_and_leaves_no_trace) {
  nn::Sequential model;
  model.emplace<nn::Linear>(4, 3);
  model.emplace<nn::ReLU>();
  for (int again = 0; again < 2; ++again) {
    const auto layers = nn::summarise(model, {f32({5, 4})});
    ASSERT_EQ(layers.size(), 3u);
    EXPECT_EQ(layers[1].path, "0");
    EXPECT_EQ(layers[1].description, "Linear(4, 3)");
    EXPECT_EQ(layers[1].output, f32({5, 3}));
    EXPECT_EQ(layers[1].parameters, 15);
    EXPECT_GE(layers[1].flops, 2 * 5 * 4 * 3);
    EXPECT_EQ(layers[2].activation_bytes, 4 * 5 * 3);
  }
  EXPECT_THROW(model.parameters(), UsageError);
  EXPECT_THROW(nn::summarise(model, {f32({5, 6})}), ShapeError);
}

}  // namespace
}  // namespace gemel::models
