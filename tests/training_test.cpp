// What `gemel train` and `gemel eval` compute of a batch: the losses of auxiliary classifiers join, and a label out of range is told.
#include "frontends/cli/training.h"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "frontends/cli/evaluation.h"
#include "frontends/nn/functions.h"
#include "frontends/nn/layers.h"
#include "frontends/nn/loss.h"
#include "tests/message_of.h"
#include "tests/test_device.h"

namespace gemel::cli {
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
  return {.shape = {n, 1, 1, static_cast<std::int64_t>(pixels.size()) / n}, .images = bytes(pixels), .labels = bytes(labels)};
}

TEST(Loss, of_auxiliary_outputs_joins_with_its_weight_in_training_only) {
  const auto session = Session::reference();
  WithAuxiliary model(2, 3);
  model.materialise(*session);
  const Value x = session->tensor(f32({2, 1, 1, 2}), std::vector<double>{1, 2, 3, 5}), labels = session->tensor(i64({2}), std::vector<double>{0, 2});
  const Value flat = reshape(x, Shape{2, 2});
  const auto alone = [&](const char* layer) { return read(cross_entropy((*model.find(layer))(flat), labels))[0]; };
  EXPECT_DOUBLE_EQ(read(nn::classification_loss(model, model(x), labels))[0], alone("main") + 0.4 * alone("second"));
  model.eval();
  EXPECT_DOUBLE_EQ(read(nn::classification_loss(model, model(x), labels))[0], alone("main"));
}

class TrainingInBothFrontEnds : public ::testing::TestWithParam<Frontend> {};
INSTANTIATE_TEST_SUITE_P(, TrainingInBothFrontEnds, ::testing::Values(Frontend::eager, Frontend::graph),
                         [](const auto& i) { return i.param == Frontend::eager ? "eager" : "graph"; });

TEST_P(TrainingInBothFrontEnds, a_step_moves_the_auxiliary_classifier) {
  Session session(testing::shared_test_device());
  WithAuxiliary model(2, 3);
  model.materialise(session);
  const auto optimizer = optim::make("sgd", optim::all_in_one(model.parameters()));
  Training training(session, model, optimizer.get(), GetParam(), {}, 0);
  const auto weight = [&] { return read(*model.parameters().find("second.weight")); };
  const auto before = weight();
  const StepResult step = training.train(batch_of({1, 2, 3, 5}, {0, 2}), 0.1, 1).get();
  EXPECT_NE(weight(), before);
  EXPECT_EQ(step.labels, (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(step.guesses.size(), 2u);
}

TEST_P(TrainingInBothFrontEnds, a_label_out_of_range_is_told_by_training_and_evaluation) {
  const auto device = opencl::Device::open({});  // of its own: what is told here concerns no other test
  Session session(device);
  WithAuxiliary model(2, 3);
  model.materialise(session);
  const auto optimizer = optim::make("sgd", optim::all_in_one(model.parameters()));
  Training training(session, model, optimizer.get(), GetParam(), {}, 0);
  EXPECT_EQ(training.evaluate(batch_of({1, 2, 3, 5}, {0, 2})).get().labels.size(), 2u);
  PendingStep evaluated = training.evaluate(batch_of({1, 2, 3, 5}, {0, 3})), trained = training.train(batch_of({1, 2}, {7}), 0.1, 4);
  EXPECT_EQ(message_of<DataError>([&] { evaluated.get(); }), "batch 1: an index or label 3 is out of range; accepted: 0..2");
  EXPECT_NE(message_of<DataError>([&] { trained.get(); }).find("step 4: an index or label "), std::string::npos);
}

TEST(Evaluation, counts_precision_recall_and_f1_of_two_classes) {
  Totals totals;
  totals.add({0.5, {1, 1, 1, 0}, {1, 1, 0, 1}});
  totals.add({2.0, {0}, {0}});
  EXPECT_EQ(totals.samples, 5);
  EXPECT_EQ(totals.correct, 3);
  EXPECT_DOUBLE_EQ(totals.mean_loss(), (4 * 0.5 + 2) / 5);
  EXPECT_DOUBLE_EQ(totals.precision(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(totals.recall(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(totals.f1(), 2.0 / 3);
  EXPECT_EQ(Totals().precision(), 0) << "nothing was counted";
}

}  // namespace
}  // namespace gemel::cli
