// Modules of several inputs and outputs: called, chained, watched, computed again, and trained by a task of their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/graph/compile.h"
#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/summary.h"
#include "frontends/train/step.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"

namespace gemel {
namespace {

using testing::message_of;
using List = std::vector<double>;

/// A step of a recurrence: (x [N, 3], state [N, 3] or none) -> (y [N, 3], the new state).
class RecurrentStep : public nn::Module {
 public:
  std::string describe() const override { return "Cell"; }

 protected:
  Values forward_values(Values in) override {
    Value state = seen_(in[0]);
    if (in[1]) state = std::move(state) + kept_(std::move(in[1]));
    state = tanh(std::move(state));
    return {out_(state), state};
  }

 private:
  nn::Linear& seen_ = add<nn::Linear>("seen", 3, 3);
  nn::Linear& kept_ = add<nn::Linear>("kept", 3, 3);
  nn::Linear& out_ = add<nn::Linear>("out", 3, 3);
};

class SeveralValues : public ::testing::Test {
 protected:
  std::unique_ptr<Session> session = Session::reference();
  RecurrentStep cell;
  Value x = leaf(session->tensor(f32({2, 3}), List{1, 2, 3, -1, 0.5, 0})), state = leaf(session->tensor(f32({2, 3}), List{0.5, 0, -1, 2, 1, 1}));
  void SetUp() override { cell.materialise(*session); }
  List numbers(const Values& values) const {
    List out;
    for (const Value& v : values)
      for (double n : read(v)) out.push_back(n);
    return out;
  }
};

TEST_F(SeveralValues, go_in_and_out_and_may_be_left_out) {
  const Values with = cell({x, state}), without = cell({x, Value()});
  ASSERT_EQ(with.size(), 2u);
  EXPECT_NE(numbers(with), numbers(without));
  EXPECT_EQ(numbers(without), numbers(cell({x, Value()})));
}

TEST_F(SeveralValues, a_call_that_does_not_fit_is_refused) {
  EXPECT_EQ(message_of<UsageError>([&] { nn::Linear(3, 3)(Values{x, state}); }), "Linear(3, 3): 2 tensors are given; accepted: one");
  nn::Sequential two;
  two.append(std::make_unique<RecurrentStep>());
  two.materialise(*session);
  EXPECT_EQ(message_of<UsageError>([&] { cell(Values{Value(), x}); }), "Cell: the input is empty; accepted: a tensor");
  cell.add_forward_pre_hook([](nn::Module&, Values& in) { in.emplace_back(); });
  EXPECT_EQ(message_of<UsageError>([&] { cell(x); }), "Cell: it gives 2 tensors; accepted: a call with a list of tensors");
}

TEST_F(SeveralValues, a_sequence_hands_them_on) {
  nn::Sequential chain;
  chain.emplace<RecurrentStep>();
  chain.emplace<RecurrentStep>();
  chain.materialise(*session);
  const Values first = (*chain.children()[0])({x, state});
  EXPECT_EQ(numbers(chain({x, state})), numbers((*chain.children()[1])(first)));
}

TEST_F(SeveralValues, hooks_see_each) {
  std::vector<std::size_t> outputs, inputs;
  cell.add_forward_hook([](nn::Module&, const Values& in, Values& out) { out[1] = out[1] + in[1]; });
  cell.add_backward_pre_hook([&](nn::Module&, Value&, std::size_t which) { outputs.push_back(which); });
  cell.add_backward_hook([&](nn::Module&, Value& gradient, std::size_t which) {
    inputs.push_back(which);
    if (which == 1) gradient = gradient * 0.0;
  });
  const Values y = cell({x, state});
  const Values g = gradient({sum(y[0]) + sum(y[1])}, {x, state});
  std::ranges::sort(outputs);
  std::ranges::sort(inputs);
  EXPECT_EQ(outputs, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(inputs, (std::vector<std::size_t>{0, 1}));
  EXPECT_NE(read(g[0]), List(6, 0.0));
  EXPECT_EQ(read(g[1]), List(6, 0.0));
}

TEST_F(SeveralValues, are_computed_again_with_the_same_gradients) {
  const auto run = [&](nn::Recompute recompute, const Value& second) {
    cell.set_recompute(recompute);
    const Values y = cell({x, second});
    Values all = y;
    Values wanted = values_of(cell.parameters().parameters());
    wanted.push_back(x);
    for (Value& g : gradient({sum(square(y[0])) + sum(y[1])}, wanted))
      if (g) all.push_back(std::move(g));
    return numbers(all);
  };
  for (const Value& second : {state, Value()}) EXPECT_EQ(run(nn::Recompute::yes, second), run(nn::Recompute::no, second));
}

TEST_F(SeveralValues, are_compiled_and_summarised) {
  const auto compiled = [&](const Values& in) -> Values {
    const GradientMode off(*session, GradientMode::Mode::off);
    return cell(in);
  };
  graph::Compiled captured = graph::compile(*session, compiled);
  EXPECT_EQ(numbers(captured({x.detached(), state.detached()})), numbers(cell({x, state})));
  RecurrentStep named;
  const auto layers = nn::summarise(named, {f32({5, 3}), f32({5, 3})});
  ASSERT_EQ(layers.size(), 4u);
  EXPECT_EQ(layers[0].output, f32({5, 3}));
}

/// Squared errors of what a mask lets through, over the masked elements; and the size of the state.
class MaskedTask : public train::Task {
 public:
  explicit MaskedTask(nn::Module& module) : module_(module) {}
  nn::Module& module() override { return module_; }
  std::vector<std::string> inputs() const override { return {"x", "state", "target", "mask"}; }
  train::Outcome forward(const train::Inputs& in) override {
    const Values y = module_({in["x"], in["state"]});
    return {sum(in["mask"] * (square(y[0] - in["target"]) + square(y[1]) * 0.5))};
  }
  double weight(const datasets::Batch& batch) const override {
    const auto& bytes = *batch["mask"].bytes;
    const auto* mask = reinterpret_cast<const float*>(bytes.data());
    return std::accumulate(mask, mask + bytes.size() / sizeof(float), 0.0);
  }

 private:
  nn::Module& module_;
};

datasets::Batch masked_batch(std::int64_t samples) {
  const auto waves = [samples](const char* name, double pace) {
    std::vector<float> numbers(static_cast<std::size_t>(3 * samples));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(std::sin(pace * static_cast<double>(i + 1)));
    return datasets::host_tensor<float>(name, {samples, 3}, numbers);
  };
  std::vector<float> mask(static_cast<std::size_t>(3 * samples));
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 5 < 2 || i < 3 ? 1.0f : 0.0f;  // uneven from sample to sample
  return {.tensors = {waves("x", 0.7), waves("state", 1.3), waves("target", 2.1), datasets::host_tensor<float>("mask", {samples, 3}, mask)},
          .samples = samples};
}

class SeveralValuesTrain : public ::testing::TestWithParam<train::Frontend> {
 protected:
  /// Mean loss and gradients of one step, then the loss after more.
  struct Result {
    double loss, weight;
    List gradients;
    double last;
  };
  static Result trained(train::Frontend frontend, std::int64_t accumulate) {
    Session session(testing::shared_test_device());
    RecurrentStep cell;
    cell.materialise(session);
    MaskedTask task(cell);
    const auto optimizer = optim::make("sgd", optim::all_in_one(cell.parameters()));
    const auto parameters = [&] {
      List out;
      for (const NamedValue& p : cell.parameters().parameters())
        for (double v : read(p.value)) out.push_back(v);
      return out;
    };
    train::Step step(session, task, optimizer.get(), {frontend, parse_passes("all"), accumulate});
    List before = parameters();
    const train::Sums sums = step.train(masked_batch(7), 1, 1).get();  // by rate 1 the parameters move by their gradients
    const List after = parameters();
    for (std::size_t i = 0; i < before.size(); ++i) before[i] -= after[i];
    double last = 0;
    for (std::int64_t s = 2; s <= 20; ++s) last = step.train(masked_batch(7), 0.1, s).get().mean_loss();
    return {sums.mean_loss(), sums.weight, before, last};
  }
};
INSTANTIATE_TEST_SUITE_P(, SeveralValuesTrain, ::testing::Values(train::Frontend::eager, train::Frontend::graph),
                         [](const auto& i) { return std::string(train::to_string(i.param)); });

TEST_P(SeveralValuesTrain, micro_batches_of_uneven_masks_give_the_whole_batchs_loss_and_gradients) {
  const Result whole = trained(GetParam(), 1);
  EXPECT_LT(whole.last, whole.loss);
  for (std::int64_t parts : {2, 3, 7}) {
    const Result cut = trained(GetParam(), parts);
    EXPECT_EQ(cut.weight, whole.weight);
    EXPECT_NEAR(cut.loss, whole.loss, 1e-6);  // float32 sums in another order
    for (std::size_t i = 0; i < whole.gradients.size(); ++i) EXPECT_NEAR(cut.gradients[i], whole.gradients[i], 1e-6) << parts << " parts, number " << i;
  }
}

}  // namespace
}  // namespace gemel
