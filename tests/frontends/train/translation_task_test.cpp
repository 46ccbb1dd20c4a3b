// The task of translation on tokens made by hand: its loss, and what its metrics count.
#include "frontends/train/tasks/translation_task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/core/session.h"
#include "engine/ops/ops.h"
#include "tests/support/device/test_device.h"

namespace gemel::train {
namespace {

using List = std::vector<double>;
using Ids = std::vector<std::int64_t>;
using testing::test_session;

constexpr std::int64_t kEnd = 2, kTokens = 20;

/// Gives logits where it is given a target, and tokens where it is not, whatever they are.
class FixedTranslations : public nn::Module {
 public:
  FixedTranslations(Value logits, Value tokens) : logits_(std::move(logits)), tokens_(std::move(tokens)) {}

 protected:
  Values forward_values(Values in) override { return {in.size() > 1 ? logits_ : tokens_}; }

 private:
  Value logits_, tokens_;
};

TranslationTaskOptions options(double smoothing = 0) {
  return {kEnd, smoothing, [](const Ids& ids) { return fmt::format("{}", fmt::join(ids, " ")); }};
}

struct Row {
  Ids labels;   // -1 behind the end
  Ids written;  // by the model
};
/// Sums of a batch of these rows, alike in their lengths, in evaluation.
Sums sums_of_rows(const std::vector<Row>& rows) {
  Session& session = test_session();
  const std::int64_t n = std::ssize(rows), labels = std::ssize(rows[0].labels), most = std::ssize(rows[0].written);
  Ids all_labels;
  List written;
  for (const Row& row : rows) {
    all_labels.insert(all_labels.end(), row.labels.begin(), row.labels.end());
    written.insert(written.end(), row.written.begin(), row.written.end());
  }
  FixedTranslations module(full(session, f32({n, labels, kTokens}), 0), session.tensor(i64({n, most}), written));
  module.eval();
  TranslationTask task(module, options());
  const datasets::Batch batch{.tensors = {datasets::host_tensor("labels", Shape{n, labels}, std::span<const std::int64_t>(all_labels))}, .samples = n};
  const std::vector<std::string> names = task.inputs();
  const Value ids = full(session, i64({n, 1}), 3);
  const Values values{ids, ids, session.tensor(batch.tensors[0].spec, *batch.tensors[0].bytes)};
  const Outcome outcome = task.forward({names, values});
  return {n, read(outcome.loss)[0], task.weight(batch), task.count(batch, {{read(outcome.outputs.at(0))}})};
}

std::vector<Metric> translation_metrics(const Sums& sums) {
  FixedTranslations module{Value(), Value()};
  return TranslationTask(module, options()).metrics(sums);
}

TEST(TranslationTask, has_the_cross_entropy_of_its_labels) {
  const Sums sums = sums_of_rows({{{3, 4, kEnd, -1}, {3, 4, kEnd, 0}}, {{5, kEnd, -1, -1}, {5, kEnd, 0, 0}}});
  EXPECT_EQ(sums.weight, 5);
  EXPECT_NEAR(sums.mean_loss(), std::log(static_cast<double>(kTokens)), 1e-6) << "of equal logits";
}

TEST(TranslationTask, counts_tokens_at_the_places_of_the_labels) {
  const auto accuracy = [](const Row& row) {
    const auto metrics = translation_metrics(sums_of_rows({row}));
    EXPECT_EQ(metrics.at(1).name, "token_accuracy");
    return metrics.at(1).value;
  };
  EXPECT_EQ(accuracy({{3, 4, 5, kEnd, -1}, {3, 4, 5, kEnd, 0}}), 1);
  EXPECT_EQ(accuracy({{3, 4, 5, kEnd, -1}, {3, 5, 4, kEnd, 0}}), 0.5);
  EXPECT_EQ(accuracy({{3, 4, 5, kEnd, -1}, {3, 4, 5, 6, kEnd}}), 0.75) << "its end stands elsewhere";
  EXPECT_EQ(accuracy({{3, 4, 5, kEnd, -1}, {3, kEnd, 5, kEnd, 0}}), 0.25) << "nothing behind its end counts";
  EXPECT_EQ(accuracy({{3, 4, 5, kEnd, -1}, {3, 4}}), 0.5) << "it may be shorter than the labels";
  EXPECT_EQ(accuracy({{kEnd, -1}, {kEnd, 0}}), 1);
}

TEST(TranslationTask, has_the_bleu_of_the_texts_without_their_ends) {
  const auto bleu = [](const std::vector<Row>& rows) {
    const auto metrics = translation_metrics(sums_of_rows(rows));
    EXPECT_EQ(metrics.at(0).name, "bleu");
    return metrics.at(0).value;
  };
  EXPECT_EQ(bleu({{{3, 4, 5, 6, kEnd}, {3, 4, 5, 6, kEnd}}}), 1);
  EXPECT_EQ(bleu({{{3, 4, 5, 6, kEnd}, {3, 4, 5, 7, 6}}}), 0);
  // 3 of 4 runs of four, all shorter ones but one of each length: precisions 9/10, 7/8, 5/6, 3/4, as tests/frontends/train/bleu_test.cpp has them.
  EXPECT_NEAR(bleu({{{3, 4, 5, 6, kEnd, -1, -1}, {3, 4, 5, 6, kEnd, 7, 7}}, {{10, 11, 12, 13, 14, 15, kEnd}, {10, 11, 12, 13, 14, 16, kEnd}}}),
              std::pow(9.0 / 10 * 7 / 8 * 5 / 6 * 3 / 4, 0.25), 1e-12);
}

TEST(TranslationTask, translates_in_evaluation_alone_and_not_in_stages) {
  Session& session = test_session();
  FixedTranslations module(full(session, f32({1, 2, kTokens}), 0), full(session, i64({1, 2}), 3));
  TranslationTask task(module, options());
  const std::vector<std::string> names = task.inputs();
  const Values values(3, full(session, i64({1, 2}), 3));
  EXPECT_TRUE(task.forward({names, values}).outputs.empty());
  module.eval();
  EXPECT_EQ(task.forward({names, values}).outputs.size(), 1u);
  task.cut_into_stages();
  EXPECT_TRUE(task.forward({names, values}).outputs.empty());
}

TEST(TranslationTask, adds_up_over_batches_and_has_no_metrics_of_training) {
  const Row right{{3, 4, 5, 6, kEnd}, {3, 4, 5, 6, kEnd}}, wrong{{7, 6, 5, 4, kEnd}, {7, 6, 5, 3, kEnd}};
  Sums parts = sums_of_rows({wrong});
  parts += sums_of_rows({right});
  const auto whole = translation_metrics(sums_of_rows({right, wrong})), added = translation_metrics(parts);
  ASSERT_EQ(whole.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(added[i].value, whole[i].value);
  EXPECT_EQ(whole[1].value, 0.9);
  EXPECT_TRUE(translation_metrics({.samples = 3, .loss = 1, .weight = 2}).empty());
}

}  // namespace
}  // namespace gemel::train
