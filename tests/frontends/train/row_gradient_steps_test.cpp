// Training steps of a table whose gradient is rows: micro-batches, hooks, both front ends.
#include <gtest/gtest.h>

#include "engine/gradients/row_gradient.h"
#include "frontends/train/step.h"
#include "tests/support/models/row_gradient_training.h"

namespace gemel::train {
namespace {

using testing::Numbers;
using testing::RowModel;

/// The sum of squares of what the model makes of the words. With `tied`, they are also scored against the table.
class Squares : public Task {
 public:
  enum class Scores { none, tied };
  Squares(RowModel& model, Scores scores) : model_(model), scores_(scores) {}
  nn::Module& module() override { return model_; }
  std::vector<std::string> inputs() const override { return {"words"}; }
  Outcome forward(const Inputs& batch) override {
    Value loss = sum(square(model_(batch["words"])));
    if (scores_ == Scores::tied) loss = loss + sum(square(model_.table.weight().tensor()));
    return {loss, {}};
  }

 private:
  RowModel& model_;
  Scores scores_;
};

datasets::Batch batch_of(const std::vector<std::int64_t>& words) {
  const auto view = std::as_bytes(std::span(words));
  return {.tensors = {{"words", i64({std::ssize(words)}), std::make_shared<const std::vector<std::byte>>(view.begin(), view.end())}},
          .samples = std::ssize(words)};
}

struct Case {
  const char* optimizer = "sgd";
  std::int64_t accumulate = 1;
  GradientForm form = GradientForm::rows;
  Squares::Scores scores = Squares::Scores::none;
  double max_norm = 0;  // 0: gradients are not clipped
};

/// Parameters and slots after three steps.
Numbers trained(Frontend frontend, const Case& run) {
  Session session(testing::shared_test_device());
  RowModel model(run.form);
  model.materialise(session);
  const auto optimizer = optim::make(run.optimizer, optim::all_in_one(model.parameters()));
  Squares task(model, run.scores);
  Step step(session, task, optimizer.get(), {frontend, parse_passes("none"), run.accumulate});
  if (run.max_norm > 0) step.before_update([&](Values& gradients) { optimizer->clip_norm(gradients, run.max_norm); });
  Numbers out;
  for (int s = 1; s <= 3; ++s) out.push_back(step.train(batch_of({4, 2, 4, s, 4}), 0.125, s).get().mean_loss());
  for (const NamedValue& p : model.parameters().parameters())
    for (const double v : read(p.value)) out.push_back(v);
  for (const NamedValue& slot : optimizer->state())
    for (const double v : read(slot.value)) out.push_back(v);
  return out;
}

// Three steps of sums of a few float32 numbers of some units, in another order.
constexpr double kRounding = 2e-5;

void expect_near(const Numbers& got, const Numbers& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], kRounding) << what << ", number " << i;
}

class RowSteps : public ::testing::TestWithParam<Frontend> {};
INSTANTIATE_TEST_SUITE_P(, RowSteps, ::testing::Values(Frontend::eager, Frontend::graph), [](const auto& i) { return to_string(i.param); });

TEST_P(RowSteps, micro_batches_hand_their_rows_to_one_update) {
  for (const char* optimizer : {"sgd", "adam"})
    for (const double max_norm : {0.0, 0.25}) {
      const Numbers whole = trained(GetParam(), {.optimizer = optimizer, .max_norm = max_norm});
      for (const std::int64_t parts : {2, 3, 5})
        expect_near(trained(GetParam(), {.optimizer = optimizer, .accumulate = parts, .max_norm = max_norm}), whole, optimizer);
    }
}

TEST_P(RowSteps, micro_batches_of_a_tied_table_add_up_in_its_dense_gradient) {
  for (const std::int64_t parts : {1, 2}) {
    const Numbers rows = trained(GetParam(), {.optimizer = "adam", .accumulate = parts, .scores = Squares::Scores::tied});
    EXPECT_EQ(rows, trained(GetParam(), {.optimizer = "adam", .accumulate = parts, .form = GradientForm::dense, .scores = Squares::Scores::tied}));
  }
}

TEST_P(RowSteps, hooks_see_rows_and_may_make_them_dense) {
  Session session(testing::shared_test_device());
  RowModel model(GradientForm::rows);
  model.materialise(session);
  const auto optimizer = optim::make("momentum", optim::all_in_one(model.parameters()));
  Squares task(model, Squares::Scores::none);
  Step step(session, task, optimizer.get(), {GetParam(), {}});
  int rows = 0;
  step.before_update([&](Values& gradients) {
    for (Value& g : gradients) {
      rows += row_values(g) != nullptr;
      g = to_dense(std::move(g));
    }
  });
  step.train(batch_of({4, 2, 4}), 0.125, 1).get();
  EXPECT_EQ(rows, 1);
  EXPECT_NE(read(optimizer->state()[0].value), Numbers(45, 0.0)) << "the table's velocity";
}

TEST(RowStepsOfBoth, graphs_train_as_eager_does_bit_for_bit) {
  for (const char* optimizer : {"sgd", "adam"})
    for (const std::int64_t parts : {1, 2}) {
      const Case run{.optimizer = optimizer, .accumulate = parts, .max_norm = 0.25};
      EXPECT_EQ(trained(Frontend::eager, run), trained(Frontend::graph, run)) << optimizer << ", parts " << parts;
    }
}

}  // namespace
}  // namespace gemel::train
