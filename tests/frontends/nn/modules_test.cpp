// Modules and layers, in the reference session: doubles on the host, so that every tolerance is that of the last digits.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/gradients/autograd.h"
#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "tests/support/message_of.h"

namespace gemel::nn {
namespace {

using testing::message_of;

constexpr double kExact = 1e-12;  // a few operations in double

std::vector<double> counting(std::int64_t n, double step = 0.1) {
  std::vector<double> numbers(at(n));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = step * static_cast<double>(i % 17) - 0.6;
  return numbers;
}

Value numbers(Session& session, const Spec& spec) { return session.tensor(spec, std::span<const double>(counting(spec.elements()))); }

/// conv (3 -> 2), bn, then a head: small, and with every kind of state.
class Small : public Module {
 public:
  Small() : body_(add<Sequential>("body")), head_(add<Linear>("head", 2 * 2 * 2, 3)) {
    body_.emplace<Conv2d>(3, 2, square_kernel(3));
    body_.emplace<BatchNorm2d>(2);
    body_.emplace<ReLU>();
  }

 protected:
  Value forward(Value x) override { return head_(flatten_(body_(std::move(x)))); }

 private:
  Sequential& body_;
  Linear& head_;
  Flatten flatten_;
};

TEST(Modules, parameters_and_buffers_come_in_pytorchs_order_under_their_paths) {
  const auto session = Session::reference();
  Small model;
  model.materialise(*session);
  const ParameterSet set = model.parameters();
  std::vector<std::string> parameters, buffers;
  for (const NamedValue& p : set.parameters()) parameters.push_back(p.name);
  for (const NamedValue& b : set.buffers()) buffers.push_back(b.name);
  EXPECT_EQ(parameters, (std::vector<std::string>{"body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias", "head.weight", "head.bias"}));
  EXPECT_EQ(buffers, (std::vector<std::string>{"body.1.running_mean", "body.1.running_var", "body.1.num_batches_tracked"}));
  EXPECT_EQ(set.parameter_elements(), 3 * 3 * 3 * 2 + 2 + 2 + 2 + 8 * 3 + 3);
  EXPECT_EQ(set.bytes(), 4 * (set.parameter_elements() + 4) + 8);
  EXPECT_EQ(model.parameter_elements(), set.parameter_elements());
  EXPECT_EQ(set.trainable().size(), 6u);
  ASSERT_NE(set.find("body.1.running_var"), nullptr);
  EXPECT_EQ(read(*set.find("body.1.running_var")), (std::vector<double>{1, 1}));
  EXPECT_EQ(set.find("body.2.weight"), nullptr);
}

TEST(Modules, an_unmaterialised_module_says_what_to_do) {
  const auto session = Session::reference();
  Linear linear(2, 3);
  EXPECT_EQ(message_of<Error>([&] { linear(numbers(*session, f32({4, 2}))); }), "weight: the module has no memory yet; materialise it in a session first");
}

TEST(Modules, an_error_names_the_path_of_its_layer) {
  const auto session = Session::reference();
  Sequential outer;
  outer.emplace<Sequential>().emplace<Linear>(4, 3);
  outer.materialise(*session);
  EXPECT_EQ(message_of<Error>([&] { outer(numbers(*session, f32({2, 5}))); }).substr(0, 12), "0.0: Linear(");
}

TEST(Modules, names_are_unique_and_hold_no_dots) {
  ModuleDict modules;
  modules.insert("a", std::make_unique<Identity>());
  EXPECT_THROW(modules.insert("a", std::make_unique<Identity>()), UsageError);
  EXPECT_THROW(modules.insert("a.b", std::make_unique<Identity>()), UsageError);
  EXPECT_EQ(message_of<Error>([&] { modules["b"]; }), "ModuleDict: it has no b; accepted: a");
  EXPECT_THROW(modules(Session::reference()->tensor(f32({1}), std::span<const double>(counting(1)))), UsageError);
}

TEST(Modules, find_follows_paths) {
  Small model;
  EXPECT_EQ(model.find(""), &model);
  ASSERT_NE(model.find("body.1"), nullptr);
  EXPECT_EQ(model.find("body.1")->describe(), "BatchNorm2d(2)");
  EXPECT_EQ(model.find("body.7"), nullptr);
  EXPECT_EQ(model.find("body")->find("0")->describe(), "Conv2d(3, 2, kernel 3)");
}

TEST(Modules, backward_hooks_see_and_replace_their_own_gradients) {
  const auto session = Session::reference();
  Linear linear(1, 1, Bias::no);
  linear.materialise(*session);
  assign(linear.weight().tensor().detached(), full(*session, f32({1, 1}), 3));
  const Value x = leaf(full(*session, f32({1, 1}), 5));
  double before = 0, after = 0;
  linear.add_backward_pre_hook([&](Module&, Value& gradient, std::size_t) {
    before = read(gradient)[0];
    gradient = gradient * 2.0;
  });
  const auto last = linear.add_backward_hook([&](Module&, Value& gradient, std::size_t) {
    after = read(gradient)[0];
    gradient = gradient + 1.0;
  });
  const auto gradients = [&] { return gradient({sum(linear(x)) + sum(x) * 10.0}, {x, linear.weight().tensor()}); };
  const Values hooked = gradients();
  EXPECT_EQ(before, 1);
  EXPECT_EQ(after, 2 * 3) << "of the module alone, not of what else uses its input";
  EXPECT_EQ(read(hooked[0])[0], 2 * 3 + 1 + 10);
  EXPECT_EQ(read(hooked[1])[0], 2 * 5);
  linear.remove_hook(last);
  EXPECT_EQ(read(gradients()[0])[0], 2 * 3 + 10);
}

TEST(Modules, hooks_see_and_replace_what_passes) {
  const auto session = Session::reference();
  Identity identity;
  const auto pre = identity.add_forward_pre_hook([](Module&, Values& x) { x[0] = x[0] + 1.0; });
  identity.add_forward_hook([](Module&, const Values& x, Values& y) { y[0] = x[0] * y[0]; });
  const Value x = session->tensor(f32({2}), std::vector<double>{1, 2});
  EXPECT_EQ(read(identity(x)), (std::vector<double>{4, 9}));
  identity.remove_hook(pre);
  EXPECT_EQ(read(identity(x)), (std::vector<double>{1, 4}));
}

TEST(Modules, a_hook_may_add_and_remove_hooks_while_it_runs) {
  const auto session = Session::reference();
  Identity identity;
  std::string seen;
  Module::HookId pre = 0, last = 0;
  const std::string name(100, 'p');  // held by the hook, which reads it once it is removed
  pre = identity.add_forward_pre_hook([&, name](Module& m, Values&) {
    m.remove_hook(pre);
    for (int i = 0; i < 10; ++i) m.add_forward_pre_hook([&](Module&, Values&) { seen += 'n'; });
    seen += name[0];
  });
  identity.add_forward_hook([&](Module& m, const Values&, Values&) {
    m.remove_hook(last);
    seen += 'a';
  });
  last = identity.add_forward_hook([&](Module&, const Values&, Values&) { seen += 'b'; });
  const Value x = session->tensor(f32({1}), std::vector<double>{1});
  identity(x);
  EXPECT_EQ(seen, "pab");
  identity(x);
  EXPECT_EQ(seen, "pabnnnnnnnnnna");
}

TEST(Modules, initial_values_depend_on_seed_and_path_alone) {
  const auto one = Session::reference(7), same = Session::reference(7), other = Session::reference(8);
  const auto head_in = [](Session& session, bool with_more) {
    ModuleDict model;
    if (with_more) model.insert("before", std::make_unique<Linear>(3, 3));
    model.insert("head", std::make_unique<Linear>(4, 5));
    model.materialise(session);
    return read(*model.parameters().find("head.weight"));
  };
  EXPECT_EQ(head_in(*one, false), head_in(*same, true));
  EXPECT_NE(head_in(*one, false), head_in(*other, false));
}

TEST(Modules, two_of_one_path_and_shape_start_differently_until_the_seed_is_set_again) {
  const auto session = Session::reference(7);
  const auto start = [&] {
    Linear layer(4, 5);
    layer.materialise(*session);
    return read(layer.weight().tensor());
  };
  const auto first = start(), second = start();
  EXPECT_NE(first, second);
  session->manual_seed(7);
  EXPECT_EQ(start(), first);
  EXPECT_EQ(start(), second);
}

TEST(Modules, a_parameter_found_in_a_temporary_set_is_a_handle_of_its_own) {
  static_assert(!std::is_pointer_v<decltype(std::declval<ParameterSet>().find(""))>, "it would point into what has gone");
  const auto session = Session::reference();
  Linear layer(2, 3);
  layer.materialise(*session);
  const auto weight = layer.parameters().find("weight");
  ASSERT_TRUE(weight);
  EXPECT_EQ(read(*weight), read(layer.weight().tensor()));
  EXPECT_FALSE(layer.parameters().find("width"));
}

TEST(Modules, a_loop_over_what_a_temporary_set_holds_reads_what_it_was_given) {
  static_assert(std::is_same_v<decltype(std::declval<ParameterSet>().parameters()), std::vector<NamedValue>>, "a span would point into what has gone");
  static_assert(std::is_same_v<decltype(std::declval<ParameterSet>().buffers()), std::vector<NamedValue>>);
  static_assert(std::is_same_v<decltype(std::declval<const ParameterSet&>().parameters()), std::span<const NamedValue>>, "one that stays is not copied");
  const auto session = Session::reference();
  BatchNorm2d layer(2);
  layer.materialise(*session);
  std::vector<std::string> names;
  for (const NamedValue& p : layer.parameters().parameters()) names.push_back(p.name);
  for (const NamedValue& b : layer.parameters().buffers()) names.push_back(b.name);
  EXPECT_EQ(names, (std::vector<std::string>{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}));
}

TEST(Modules, default_initial_values_fill_pytorchs_interval) {
  const auto session = Session::reference();
  Conv2d conv(8, 64, square_kernel(3));
  conv.materialise(*session);
  const double bound = 1 / std::sqrt(72.0);  // 8 channels of 3 x 3
  double largest = 0, total = 0;
  for (const double w : read(conv.weight().tensor())) {
    largest = std::max(largest, std::abs(w));
    total += w;
  }
  EXPECT_LE(largest, bound * (1 + 1e-6));                                // the bound is rounded to float32
  EXPECT_GT(largest, 0.99 * bound);                                      // of 4 608 draws
  EXPECT_LT(std::abs(total / 4608), 4 * bound / std::sqrt(3 * 4608.0));  // four deviations of the mean
  for (const double b : read(conv.bias()->tensor())) EXPECT_LE(std::abs(b), bound * (1 + 1e-6));
}

TEST(Modules, normal_initial_values_have_their_deviation) {
  const auto session = Session::reference();
  Embedding embedding(101, 99);  // an odd count: the last pair is cut
  embedding.materialise(*session);
  const std::vector<double> w = read(embedding.weight().tensor());
  const double n = static_cast<double>(w.size());
  const double mean = std::accumulate(w.begin(), w.end(), 0.0) / n;
  const double square = std::inner_product(w.begin(), w.end(), w.begin(), 0.0) / n;
  EXPECT_LT(std::abs(mean), 4 / std::sqrt(n));              // four deviations of the mean,
  EXPECT_LT(std::abs(square - 1), 4 * std::sqrt(2.0 / n));  // and of the mean square
}

TEST(Modules, freezing_takes_parameters_out_of_training) {
  const auto session = Session::reference();
  Small model;
  model.freeze_backbone();
  model.materialise(*session);
  const auto trainable = model.parameters().trainable();
  ASSERT_EQ(trainable.size(), 2u);
  EXPECT_EQ(trainable[0].name, "head.weight");
  model.unfreeze();
  EXPECT_EQ(model.parameters().trainable().size(), 6u);
  model.freeze();
  EXPECT_TRUE(model.parameters().trainable().empty());
}

TEST(Modules, gradients_reach_every_trainable_parameter) {
  const auto session = Session::reference();
  Small model;
  model.materialise(*session);
  const Value loss = sum(square(model(numbers(*session, f32({2, 4, 4, 3})))));
  const auto trainable = model.parameters().trainable();
  const Values gradients = gradient({loss}, values_of(trainable));
  for (std::size_t i = 0; i < trainable.size(); ++i) {
    ASSERT_TRUE(gradients[i]) << trainable[i].name;
    EXPECT_EQ(gradients[i].shape(), trainable[i].value.shape());
  }
}

TEST(Layers, linear_is_x_w_plus_b) {
  const auto session = Session::reference();
  Linear linear(3, 2);
  linear.materialise(*session);
  const std::vector<double> w = read(linear.weight().tensor()), b = read(linear.bias()->tensor()), x = counting(12);
  const std::vector<double> y = read(linear(numbers(*session, f32({2, 2, 3}))));
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t k = 0; k < 2; ++k) {
      double expected = b[k];
      for (std::size_t c = 0; c < 3; ++c) expected += x[row * 3 + c] * w[c * 2 + k];
      EXPECT_NEAR(y[row * 2 + k], expected, kExact);
    }
  EXPECT_EQ(Linear(3, 2, Bias::no).bias(), nullptr);
}

TEST(Layers, a_pointwise_convolution_is_a_linear_layer_with_its_bias) {
  const auto session = Session::reference();
  Conv2d conv(3, 2, square_kernel(1));
  conv.materialise(*session);
  const std::vector<double> w = read(conv.weight().tensor()), b = read(conv.bias()->tensor()), x = counting(12);
  const Value y = conv(numbers(*session, f32({1, 2, 2, 3})));
  EXPECT_EQ(y.shape(), (Shape{1, 2, 2, 2}));
  const std::vector<double> got = read(y);
  for (std::size_t pixel = 0; pixel < 4; ++pixel)
    for (std::size_t k = 0; k < 2; ++k)
      EXPECT_NEAR(got[pixel * 2 + k], b[k] + x[pixel * 3] * w[k] + x[pixel * 3 + 1] * w[2 + k] + x[pixel * 3 + 2] * w[4 + k], kExact);
}

TEST(Layers, images_with_their_channels_first_are_told_the_layout_that_is_expected) {
  const auto session = Session::reference();
  Conv2d conv(3, 4, square_kernel(3));
  BatchNorm2d norm(3);
  conv.materialise(*session);
  norm.materialise(*session);
  const Value channels_first = numbers(*session, f32({2, 3, 8, 8}));
  EXPECT_EQ(message_of<ShapeError>([&] { conv(channels_first); }),
            "conv2d: x [2, 3, 8, 8] has 8 channels, its last axis, w [3, 3, 3, 4] takes 3; accepted: x [N, H, W, 3], which transpose(x, {0, 2, 3, 1}) makes of "
            "[N, C, H, W]");
  EXPECT_EQ(message_of<ShapeError>([&] { norm(channels_first); }),
            "batch_norm: gamma is [3], x [2, 3, 8, 8] has 8 channels, its last axis as images are [N, H, W, C]; accepted: [8]");
  EXPECT_EQ(conv(transpose(channels_first, {0, 2, 3, 1})).shape(), (Shape{2, 6, 6, 4}));
}

TEST(Layers, groups_that_do_not_divide_are_refused) {
  EXPECT_EQ(message_of<Error>([] { Conv2d(6, 8, square_kernel(1, 1, 0, Bias::no, 4)); }),
            "Conv2d: 4 groups given for 6 input and 8 output channels; accepted: a divisor of both");
}

TEST(Layers, batch_norm_tracks_batches_in_training_and_uses_them_in_evaluation) {
  const auto session = Session::reference();
  BatchNorm2d bn(1);
  bn.materialise(*session);
  const Value x = session->tensor(f32({2, 1, 1, 1}), std::vector<double>{1, 3});
  const std::vector<double> trained = read(bn(x));
  EXPECT_NEAR(trained[1], 1 / std::sqrt(1 + 1e-5), kExact);  // mean 2, biased variance 1
  bn(x);
  const ParameterSet set = bn.parameters();
  EXPECT_EQ(read(*set.find("num_batches_tracked")), std::vector<double>{2});
  const double mean = 2 * (0.1 + 0.9 * 0.1), variance = 0.81 + 2 * (0.1 + 0.9 * 0.1);  // unbiased variance 2
  EXPECT_NEAR(read(*set.find("running_mean"))[0], mean, kExact);
  EXPECT_NEAR(read(*set.find("running_var"))[0], variance, kExact);
  bn.eval();
  EXPECT_NEAR(read(bn(x))[1], (3 - mean) / std::sqrt(variance + 1e-5), kExact);
  EXPECT_EQ(read(*set.find("num_batches_tracked")), std::vector<double>{2});
}

TEST(Layers, frozen_batch_norm_keeps_its_statistics_in_training) {
  const auto session = Session::reference();
  BatchNorm2d bn(1);
  bn.materialise(*session);
  bn.freeze();
  EXPECT_TRUE(bn.training());
  const Value x = session->tensor(f32({2, 1, 1, 1}), std::vector<double>{1, 3});
  EXPECT_NEAR(read(bn(x))[1], 3 / std::sqrt(1 + 1e-5), kExact);
  EXPECT_EQ(read(*bn.parameters().find("running_mean")), std::vector<double>{0});
}

TEST(Layers, layer_norm_normalises_its_last_axis) {
  const auto session = Session::reference();
  LayerNorm norm(2);
  norm.materialise(*session);
  const std::vector<double> y = read(norm(session->tensor(f32({2, 2}), std::vector<double>{1, 3, -5, 5})));
  EXPECT_NEAR(y[0], -1 / std::sqrt(1 + 1e-5), kExact);
  EXPECT_NEAR(y[3], 5 / std::sqrt(25 + 1e-5), kExact);
}

TEST(Layers, embedding_takes_rows) {
  const auto session = Session::reference();
  Embedding embedding(4, 2);
  embedding.materialise(*session);
  const std::vector<double> w = read(embedding.weight().tensor());
  const Value y = embedding(session->tensor(i64({1, 2}), std::vector<double>{3, 0}));
  EXPECT_EQ(y.shape(), (Shape{1, 2, 2}));
  EXPECT_EQ(read(y), (std::vector<double>{w[6], w[7], w[0], w[1]}));
}

TEST(Layers, flatten_gives_channels_first) {
  const auto session = Session::reference();
  Flatten flatten;
  const Value y = flatten(session->tensor(f32({1, 1, 2, 3}), std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(y.shape(), (Shape{1, 6}));
  EXPECT_EQ(read(y), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(flatten(numbers(*session, f32({2, 1, 1, 5}))).shape(), (Shape{2, 5}));
  EXPECT_EQ(flatten(numbers(*session, f32({2, 3, 5}))).shape(), (Shape{2, 15}));
}

TEST(Layers, dropout_acts_in_training_only) {
  const auto session = Session::reference();
  Dropout half(0.5);
  const Value x = session->tensor(f32({1000}), std::vector<double>(1000, 1.0));
  double kept = 0;
  for (const double y : read(half(x))) {
    EXPECT_TRUE(y == 0 || y == 2);
    kept += y / 2;
  }
  EXPECT_NEAR(kept, 500, 4 * std::sqrt(250.0));  // four deviations of the count
  half.eval();
  EXPECT_EQ(half(x).storage(), x.storage());
  Dropout all(1);
  EXPECT_EQ(read(all(x)), std::vector<double>(1000, 0.0));
  EXPECT_THROW(Dropout(1.01), UsageError);
  EXPECT_THROW(Dropout(-0.01), UsageError);
}

TEST(Layers, pooling_shrinks_images) {
  const auto session = Session::reference();
  const Value x = session->tensor(f32({1, 2, 2, 1}), std::vector<double>{1, 2, 3, 6});
  EXPECT_EQ(read(MaxPool2d(square_window(2))(x)), std::vector<double>{6});
  EXPECT_EQ(read(AvgPool2d(square_window(2))(x)), std::vector<double>{3});
  EXPECT_EQ(read(AdaptiveAvgPool2d({1, 1})(x)), std::vector<double>{3});
  EXPECT_EQ(AdaptiveAvgPool2d({4, 4})(x).shape(), (Shape{1, 4, 4, 1}));
}

TEST(Layers, activations_are_their_operators) {
  const auto session = Session::reference();
  const auto at_two = [&](Module&& layer) { return read(layer(session->tensor(f32({1}), std::vector<double>{2})))[0]; };
  EXPECT_EQ(at_two(ReLU()), 2);
  EXPECT_EQ(at_two(ReLU6()), 2);
  EXPECT_NEAR(at_two(SiLU()), 2 / (1 + std::exp(-2.0)), kExact);
  EXPECT_NEAR(at_two(Hardswish()), 2 * 5 / 6.0, kExact);
  EXPECT_NEAR(at_two(Sigmoid()), 1 / (1 + std::exp(-2.0)), kExact);
  EXPECT_NEAR(at_two(Tanh()), std::tanh(2.0), kExact);
  EXPECT_NEAR(at_two(GELU()), 1 + std::erf(std::sqrt(2.0)), kExact);
}

}  // namespace
}  // namespace gemel::nn
