// A batch of no samples gives empty results, and gradients of 0, where PyTorch's layers and losses do.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>

#include "engine/base/error.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/multi_head_attention.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "frontends/nn/layers/rnn.h"
#include "frontends/nn/loss.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"

namespace gemel::nn {
namespace {

using namespace gemel::testing;

class EmptyBatch : public ::testing::TestWithParam<Where> {
 protected:
  Session& session() { return *session_; }
  Value zeros(const Shape& shape) { return leaf(full(session(), {shape, DType::float32}, 0)); }
  Value none(const Spec& spec) { return session().tensor(spec, std::span<const double>()); }

  /// All of them are there and hold nothing but zeros.
  static void expect_zeros(const Values& values) {
    for (const Value& v : values) {
      ASSERT_TRUE(bool(v));
      for (const double x : read(v)) EXPECT_EQ(x, 0);
    }
  }

  /// A layer of x [0, ...]: its output's shape, and zeros for its parameters.
  void expect_empty(Module& module, const Shape& x, const Shape& y) {
    SCOPED_TRACE(module.describe());
    module.materialise(session());
    Values leaves{zeros(x)};
    const Value out = module(leaves[0]);
    EXPECT_EQ(out.shape(), y);
    for (const auto& [name, value] : module.parameters().parameters()) leaves.push_back(value);
    expect_zeros(gradient({sum(out)}, leaves));
  }

 private:
  std::unique_ptr<Session> session_ = session_on(GetParam());
};

TEST_P(EmptyBatch, layers_give_empty_results_and_no_gradient) {
  Linear linear(3, 4);
  expect_empty(linear, {0, 3}, {0, 4});
  Conv2d conv(3, 4, square_kernel(3));
  expect_empty(conv, {0, 8, 8, 3}, {0, 6, 6, 4});
  Conv2d depthwise(4, 4, square_kernel(3, 2, 1, Bias::no, 4));
  expect_empty(depthwise, {0, 8, 8, 4}, {0, 4, 4, 4});
  Conv1d conv1d(3, 4, {.kernel = 3});
  expect_empty(conv1d, {0, 8, 3}, {0, 6, 4});
  MaxPool2d max_pool(square_window(2));
  expect_empty(max_pool, {0, 8, 8, 3}, {0, 4, 4, 3});
  AvgPool2d avg_pool(square_window(2));
  expect_empty(avg_pool, {0, 8, 8, 3}, {0, 4, 4, 3});
  AdaptiveAvgPool2d adaptive(Pair{2, 2});
  expect_empty(adaptive, {0, 8, 8, 3}, {0, 2, 2, 3});
  LayerNorm layer_norm(3);
  expect_empty(layer_norm, {0, 5, 3}, {0, 5, 3});
  Flatten flatten;
  expect_empty(flatten, {0, 2, 2, 3}, {0, 12});
  Dropout dropout(0.5);
  expect_empty(dropout, {0, 5, 3}, {0, 5, 3});
}

TEST_P(EmptyBatch, recurrent_layers_give_empty_outputs_and_states) {
  LSTM lstm(3, 4, {.layers = 2, .bidirectional = Bidirectional::yes});
  GRU gru(3, 4, {});
  for (Module* module : std::initializer_list<Module*>{&lstm, &gru}) {
    SCOPED_TRACE(module->describe());
    module->materialise(session());
    Values leaves{zeros({0, 5, 3})};
    const Values out = (*module)(Values{leaves[0]});
    EXPECT_EQ(out[0].shape(), (module == &gru ? Shape{0, 5, 4} : Shape{0, 5, 8}));
    EXPECT_EQ(out[1].shape(), (module == &gru ? Shape{1, 0, 4} : Shape{4, 0, 4}));
    for (const auto& [name, value] : module->parameters().parameters()) leaves.push_back(value);
    expect_zeros(gradient({sum(out[0])}, leaves));
  }
}

TEST_P(EmptyBatch, attention_and_lookups_are_empty) {
  const Value q = zeros({0, 5, 2, 4}), k = zeros({0, 6, 2, 4}), v = zeros({0, 6, 2, 3});
  const Value y = attention(q, k, v);
  EXPECT_EQ(y.shape(), (Shape{0, 5, 2, 3}));
  expect_zeros(gradient({sum(y)}, {q, k, v}));
  const Value table = zeros({5, 3}), rows = gather(table, none(i64({0, 4})), 0);
  EXPECT_EQ(rows.shape(), (Shape{0, 4, 3}));
  expect_zeros(gradient({sum(rows)}, {table}));
}

TEST_P(EmptyBatch, softmax_is_empty_and_the_mean_of_no_losses_is_nan) {
  const Value x = zeros({0, 5}), labels = none(i64({0}));
  for (const Value& y : {softmax(x), log_softmax(x)}) {
    EXPECT_EQ(y.shape(), (Shape{0, 5}));
    expect_zeros(gradient({sum(y)}, {x}));
  }
  using Loss = std::function<Value(LossReduction)>;
  for (const Loss& loss : {Loss([&](LossReduction r) { return cross_entropy(x, labels, 0, r); }), Loss([&](LossReduction r) {
                             return cross_entropy(x, none(f32({0, 5})), 0.1, r);
                           }),
                           Loss([&](LossReduction r) {
                             return binary_cross_entropy(x, none(f32({0, 5})), r);
                           })}) {
    const Value of_nothing = loss(LossReduction::mean), total = loss(LossReduction::sum);
    EXPECT_TRUE(std::isnan(read(of_nothing)[0]));
    EXPECT_EQ(read(total)[0], 0);
    for (const Value& y : {of_nothing, total}) EXPECT_EQ(gradient({y}, {x})[0].shape(), (Shape{0, 5}));
  }
}

TEST_P(EmptyBatch, reductions_of_nothing_are_zero_nan_or_refused) {
  const Value x = zeros({0, 3});
  EXPECT_EQ(read(sum(x, {0})), (std::vector<double>{0, 0, 0}));
  for (const double m : read(mean(x, {0}))) EXPECT_TRUE(std::isnan(m));
  EXPECT_TRUE(std::isnan(read(mean(x))[0]));
  EXPECT_EQ(max(x, {1}).shape(), Shape{0});
  EXPECT_EQ(message_of<ShapeError>([&] { max(x, {0}); }), "max: x [0, 3] has no elements along the reduced axes; accepted: at least one");
  expect_zeros({matmul(zeros({3, 0}), zeros({0, 2}))});
}

TEST_P(EmptyBatch, normalisation_keeps_its_running_statistics) {
  BatchNorm2d norm(3);
  expect_empty(norm, {0, 8, 8, 3}, {0, 8, 8, 3});
  for (const auto& [name, value] : norm.parameters().buffers())
    for (const double x : read(value)) EXPECT_EQ(x, name == "running_var" ? 1 : 0) << name;
  norm.eval();
  expect_empty(norm, {0, 8, 8, 3}, {0, 8, 8, 3});
}

INSTANTIATE_TEST_SUITE_P(where, EmptyBatch, ::testing::Values(Where::reference, Where::device),
                         [](const auto& where) { return where.param == Where::device ? "device" : "reference"; });

}  // namespace
}  // namespace gemel::nn
