// The training layer: losses of auxiliary classifiers join, micro-batches add up to the batch, a label out of range is told.
#include "frontends/train/step.h"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"
#include "frontends/nn/loss.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"

namespace gemel::train {
namespace {

using testing::message_of;

/// A linear classifier of whole pictures, and in training a second one with a weight of its own.
class WithAuxiliary : public nn::Module {
 public:
  WithAuxiliary(std::int64_t features, std::int64_t classes)
      : main_(add<nn::Linear>("main", features, classes)), second_(add<nn::Linear>("second", features, classes)) {}
  Values take_auxiliary() override { return std::exchange(auxiliary_, {}); }

 protected:
  Value forward(Value x) override {
    x = flatten_(std::move(x));
    if (training()) auxiliary_ = {second_(x)};
    return main_(std::move(x));
  }

 private:
  nn::Linear &main_, &second_;
  nn::Flatten flatten_;
  Values auxiliary_;
};

datasets::Batch batch_of(const std::vector<float>& pixels, const std::vector<std::int64_t>& labels) {
  const auto bytes = [](const auto& numbers) {
    const auto view = std::as_bytes(std::span(numbers));
    return std::make_shared<const std::vector<std::byte>>(view.begin(), view.end());
  };
  const auto n = static_cast<std::int64_t>(labels.size());
  return {.tensors = {{"images", f32({n, 1, 1, static_cast<std::int64_t>(pixels.size()) / n}), bytes(pixels)}, {"labels", i64({n}), bytes(labels)}},
          .samples = n};
}

TEST(Loss, of_auxiliary_outputs_joins_with_its_weight_in_training_only) {
  const auto session = Session::reference();
  WithAuxiliary model(2, 3);
  model.materialise(*session);
  const Value x = session->tensor(f32({2, 1, 1, 2}), std::vector<double>{1, 2, 3, 5}), labels = session->tensor(i64({2}), std::vector<double>{0, 2});
  const Value flat = reshape(x, Shape{2, 2});
  const auto alone = [&](const char* layer, double smoothing = 0) { return read(cross_entropy((*model.find(layer))(flat), labels, smoothing))[0]; };
  EXPECT_DOUBLE_EQ(read(nn::classification_loss(model, model(x), labels))[0], alone("main") + 0.4 * alone("second"));
  EXPECT_NE(alone("main", 0.1), alone("main"));
  EXPECT_DOUBLE_EQ(read(nn::classification_loss(model, model(x), labels, LossReduction::mean, 0.1))[0], alone("main", 0.1) + 0.4 * alone("second", 0.1));
  model.eval();
  EXPECT_DOUBLE_EQ(read(nn::classification_loss(model, model(x), labels))[0], alone("main"));
}

/// What a step of training that model needs.
struct Auxiliary {
  explicit Auxiliary(const char* optimizer_name) {
    model.materialise(session);
    optimizer = optim::make(optimizer_name, optim::all_in_one(model.parameters()));
  }
  Session session{testing::shared_test_device()};
  WithAuxiliary model{2, 3};
  std::unique_ptr<optim::Optimizer> optimizer;
  ClassificationTask task{model, 3};
};

class TrainingInBothFrontEnds : public ::testing::TestWithParam<Frontend> {};
INSTANTIATE_TEST_SUITE_P(, TrainingInBothFrontEnds, ::testing::Values(Frontend::eager, Frontend::graph),
                         [](const auto& i) { return i.param == Frontend::eager ? "eager" : "graph"; });

TEST_P(TrainingInBothFrontEnds, a_step_moves_the_auxiliary_classifier) {
  Auxiliary auxiliary("sgd");
  auto& [session, model, optimizer, task] = auxiliary;
  Step training(session, task, optimizer.get(), {GetParam(), {}});
  const auto weight = [&] { return read(*model.parameters().find("second.weight")); };
  const auto before = weight();
  const Sums sums = training.train(batch_of({1, 2, 3, 5}, {0, 2}), 0.1, 1).get();
  EXPECT_NE(weight(), before);
  EXPECT_EQ(sums.samples, 2);
  EXPECT_EQ(sums.weight, 2);
}

TEST_P(TrainingInBothFrontEnds, a_task_smooths_labels_of_all_classifiers) {
  Auxiliary auxiliary("sgd");
  auto& [session, model, optimizer, task] = auxiliary;
  ClassificationTask smoothed(model, 3, {.label_smoothing = 0.2});
  const Value flat = session.tensor(f32({2, 2}), std::vector<double>{1, 2, 3, 5}), labels = session.tensor(i64({2}), std::vector<double>{0, 2});
  const auto alone = [&](const char* layer) { return read(cross_entropy((*model.find(layer))(flat), labels, 0.2, LossReduction::sum))[0]; };
  const double expected = alone("main") + 0.4 * alone("second");
  Step training(session, smoothed, optimizer.get(), {GetParam(), {}});
  EXPECT_NEAR(training.train(batch_of({1, 2, 3, 5}, {0, 2}), 0.1, 1).get().loss, expected, 1e-6 * expected);  // one sum in float32
}

TEST_P(TrainingInBothFrontEnds, micro_batches_add_up_to_the_batch) {
  const std::vector<float> pixels{1, 2, 3, 5, -1, 0.5f, 2, -2, 0.25f, 1};
  const std::vector<std::int64_t> labels{0, 2, 1, 1, 2};
  const auto trained = [&](std::int64_t accumulate, const char* passes = "none") {
    Auxiliary auxiliary("momentum");
    auto& [session, model, optimizer, task] = auxiliary;
    Step step(session, task, optimizer.get(), {GetParam(), parse_passes(passes), accumulate});
    std::vector<std::size_t> parts;
    Sums sums;
    for (int s = 1; s <= 3; ++s) sums += step.train(batch_of(pixels, labels), 0.1, s).get();
    std::vector<double> out{sums.mean_loss(), static_cast<double>(sums.samples), task.metrics(sums)[0].value};
    for (const NamedValue& p : model.parameters().parameters())
      for (double v : read(p.value)) out.push_back(v);
    return out;
  };
  const auto whole = trained(1);
  for (const char* passes : {"none", "all"})
    for (std::int64_t parts : {2, 3, 5, 9}) {
      const auto cut = trained(parts, passes);
      for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(cut[i], whole[i], 1e-6) << parts << " micro-batches, number " << i;  // sums in another order
    }
}

TEST_P(TrainingInBothFrontEnds, hooks_stand_between_gradients_and_update) {
  Auxiliary auxiliary("sgd");
  auto& [session, model, optimizer, task] = auxiliary;
  Step step(session, task, optimizer.get(), {GetParam(), {}});
  step.before_update([](Values& gradients) {
    for (Value& g : gradients)
      if (g) g = g * 0.0;
  });
  const auto before = read(*model.parameters().find("main.weight"));
  step.train(batch_of({1, 2, 3, 5}, {0, 2}), 0.1, 1).get();
  EXPECT_EQ(read(*model.parameters().find("main.weight")), before);
}

TEST_P(TrainingInBothFrontEnds, a_hook_that_comes_after_a_training_step_is_refused) {
  for (const std::int64_t accumulate : {1, 2}) {
    Auxiliary auxiliary("sgd");
    auto& [session, model, optimizer, task] = auxiliary;
    Step step(session, task, optimizer.get(), {.frontend = GetParam(), .accumulate = accumulate});
    int calls = 0;
    step.evaluate(batch_of({1, 2, 3, 5}, {0, 2})).get();
    step.before_update([&calls](Values&) { ++calls; });
    step.train(batch_of({1, 2, 3, 5}, {0, 2}), 0.1, 1).get();
    EXPECT_GE(calls, 1);
    EXPECT_EQ(message_of<UsageError>([&] { step.before_update([](Values&) {}); }),
              "step: a hook is given after a training step; accepted: before the first one");
  }
}

TEST_P(TrainingInBothFrontEnds, a_step_trains_the_whole_module_and_evaluation_leaves_its_modes) {
  Auxiliary auxiliary("sgd");
  auto& [session, model, optimizer, task] = auxiliary;
  Step step(session, task, optimizer.get(), {GetParam(), {}});
  const auto modes = [&] { return std::pair(model.training(), model.find("second")->training()); };
  model.find("second")->eval();
  const Sums first = step.evaluate(batch_of({1, 2, 3, 5}, {0, 2})).get();
  EXPECT_EQ(modes(), std::pair(true, false));
  model.eval();
  EXPECT_EQ(step.evaluate(batch_of({1, 2, 3, 5}, {0, 2})).get().mean_loss(), first.mean_loss());
  EXPECT_EQ(modes(), std::pair(false, false));
  step.train(batch_of({1, 2, 3, 5}, {0, 2}), 0.1, 1).get();
  EXPECT_EQ(modes(), std::pair(true, true));
  step.evaluate(batch_of({1, 2, 3, 5}, {0, 2})).get();
  EXPECT_EQ(modes(), std::pair(true, true));
}

TEST(PackParameters, lies_in_the_order_of_the_backward_pass) {
  Session session(testing::shared_test_device());
  WithAuxiliary model(2, 3);
  model.materialise(session);
  ClassificationTask task(model, 3);
  pack_parameters(session, task, {f32({2, 1, 1, 2}), i64({2})});
  const auto index = [&](const char* name) { return model.parameters().find(name)->node()->index_in_slab; };
  // The main classifier runs last, so its gradients come first; a bias before the weight of its layer.
  EXPECT_EQ(index("main.bias"), 0u);
  EXPECT_EQ(index("main.weight"), 1u);
  EXPECT_EQ(index("second.bias"), 2u);
}

TEST_P(TrainingInBothFrontEnds, a_label_out_of_range_is_told_by_training_and_evaluation) {
  const auto device = opencl::Device::open({});  // of its own: what is told here concerns no other test
  Session session(device);
  WithAuxiliary model(2, 3);
  model.materialise(session);
  const auto optimizer = optim::make("sgd", optim::all_in_one(model.parameters()));
  ClassificationTask task(model, 3);
  Step training(session, task, optimizer.get(), {GetParam(), {}});
  EXPECT_EQ(training.evaluate(batch_of({1, 2, 3, 5}, {0, 2})).get().samples, 2);
  Pending evaluated = training.evaluate(batch_of({1, 2, 3, 5}, {0, 3})), trained = training.train(batch_of({1, 2}, {7}), 0.1, 4);
  EXPECT_EQ(message_of<DataError>([&] { evaluated.get(); }), "batch 1: an index or label 3 is out of range; accepted: 0..2");
  EXPECT_NE(message_of<DataError>([&] { trained.get(); }).find("step 4: an index or label "), std::string::npos);
}

TEST(Metrics, of_two_classes_are_accuracy_precision_recall_and_f1) {
  WithAuxiliary model(2, 2);
  const ClassificationTask task(model, 2);
  const auto counted = [&](const std::vector<std::int64_t>& labels, const std::vector<double>& guesses, double loss) {
    const datasets::Batch batch = batch_of(std::vector<float>(labels.size()), labels);
    return Sums{batch.samples, loss, task.weight(batch), task.count(batch, std::vector<std::vector<double>>{guesses})};
  };
  Sums sums;
  sums += counted({1, 1, 1, 0}, {1, 1, 0, 1}, 2);
  sums += counted({0}, {0}, 2);
  EXPECT_EQ(sums.samples, 5);
  EXPECT_DOUBLE_EQ(sums.mean_loss(), 4.0 / 5);
  const auto metrics = task.metrics(sums);
  ASSERT_EQ(metrics.size(), 4u);
  EXPECT_DOUBLE_EQ(metrics[0].value, 3.0 / 5);
  for (std::size_t i : {1, 2, 3}) EXPECT_DOUBLE_EQ(metrics[i].value, 2.0 / 3) << metrics[i].name;
  EXPECT_EQ(task.metrics(Sums())[1].value, 0) << "nothing was counted";
}

}  // namespace
}  // namespace gemel::train
