// The task of recommendations on numbers made by hand, and its loss against PyTorch's.
#include "frontends/train/tasks/recommendation_task.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/nn/loss.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/models/fixed_outputs.h"
#include "tests/support/operators/expected_values.h"

namespace gemel::train {
namespace {

using List = std::vector<double>;
using testing::test_session;

/// Sums of a batch with these logits, [N, K], of which the one at column 0 is looked for.
Sums sums_of_logits(const std::vector<List>& logits) {
  Session& session = test_session();
  const std::int64_t n = std::ssize(logits), candidates = std::ssize(logits[0]);
  List all;
  std::vector<float> labels;
  for (const List& row : logits)
    for (std::size_t k = 0; k < row.size(); ++k) {
      all.push_back(row[k]);
      labels.push_back(k == 0 ? 1 : 0);
    }
  testing::FixedOutputs module({session.tensor(f32({n, candidates}), all)});
  RecommendationTask task(module);
  const Value ids = full(session, i64({n, candidates}), 0);
  const std::vector<std::string> names = task.inputs();
  const datasets::Batch batch{.tensors = {datasets::host_tensor("labels", Shape{n, candidates}, std::span<const float>(labels))}, .samples = n};
  const Values values{ids, ids, session.tensor(batch.tensors[0].spec, *batch.tensors[0].bytes)};
  const Outcome outcome = task.forward({names, values});
  std::vector<List> outputs;
  for (const Value& v : outcome.outputs) outputs.push_back(read(v));
  return {n, read(outcome.loss)[0], task.weight(batch), task.count(batch, outputs)};
}

std::vector<Metric> recommendation_metrics(const Sums& sums) {
  testing::FixedOutputs module({});
  return RecommendationTask(module).metrics(sums);
}

/// The first of so many falling logits is at this place, from 1.
List at_place(int place, int candidates = 20) {
  List out;
  for (int k = 0; k < candidates; ++k) out.push_back(-0.5 * k);
  std::swap(out[0], out[static_cast<std::size_t>(place - 1)]);
  return out;
}

TEST(Recommendation, is_a_hit_within_ten_and_gains_by_place) {
  const Sums sums = sums_of_logits({at_place(1), at_place(3), at_place(10), at_place(11), at_place(20)});
  const auto metrics = recommendation_metrics(sums);
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[0].name, "hit_rate_at_10");
  EXPECT_DOUBLE_EQ(metrics[0].value, 0.6);
  EXPECT_EQ(metrics[1].name, "ndcg_at_10");
  EXPECT_NEAR(metrics[1].value, (1 + 0.5 + 1 / std::log2(11.0)) / 5, 1e-12);
}

TEST(Recommendation, counts_ties_and_what_is_no_number_against_the_item) {
  List tied(20, 1.0), nine_tied = at_place(1);
  for (std::size_t k = 1; k < 10; ++k) nine_tied[k] = nine_tied[0];
  EXPECT_EQ(recommendation_metrics(sums_of_logits({tied}))[0].value, 0);
  EXPECT_EQ(recommendation_metrics(sums_of_logits({nine_tied}))[0].value, 1);
  EXPECT_NEAR(recommendation_metrics(sums_of_logits({nine_tied}))[1].value, 1 / std::log2(11.0), 1e-12);
  List lost = at_place(1);
  lost[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(recommendation_metrics(sums_of_logits({lost}))[0].value, 0);
  List others(20, std::numeric_limits<double>::quiet_NaN());
  others[0] = 5;
  EXPECT_EQ(recommendation_metrics(sums_of_logits({others}))[0].value, 0);
}

TEST(Recommendation, of_two_parts_is_that_of_the_whole) {
  const std::vector<List> all{at_place(2), at_place(5), at_place(12), at_place(1)};
  Sums parts = sums_of_logits({all[0]});
  parts += sums_of_logits({all[1], all[2], all[3]});
  const Sums whole = sums_of_logits(all);
  EXPECT_EQ(parts.samples, whole.samples);
  EXPECT_NEAR(parts.mean_loss(), whole.mean_loss(), 1e-6);
  for (std::size_t m = 0; m < 2; ++m) EXPECT_DOUBLE_EQ(recommendation_metrics(parts)[m].value, recommendation_metrics(whole)[m].value);
}

TEST(Recommendation, of_single_candidates_has_a_loss_alone) {
  const Sums sums = sums_of_logits({{0.5}, {-2}, {1}});
  EXPECT_TRUE(recommendation_metrics(sums).empty());
  EXPECT_TRUE(recommendation_metrics({}).empty());
  EXPECT_EQ(sums.weight, 3);
  double expected = 0;
  for (const double x : {0.5, -2.0, 1.0}) expected += std::log1p(std::exp(-x)) / 3;
  EXPECT_NEAR(sums.mean_loss(), expected, 1e-6);
  EXPECT_EQ(sums_of_logits({at_place(1), at_place(2)}).weight, 40) << "a mean over all candidates";
}

/// The losses reach 100, of which float32 keeps 1e-5.
TEST(BinaryCrossEntropy, is_pytorchs_with_its_gradient_for_large_and_small_logits) {
  Session& session = test_session();
  const testing::Expected expected("ncf/expected.safetensors");
  const List losses = expected.numbers("bce.losses"), slopes = expected.numbers("bce.gradient"), x = expected.numbers("bce.logits"),
             y = expected.numbers("bce.labels");
  ASSERT_EQ(losses.size(), 12u);
  double sum = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const Value logit = leaf(session.tensor(f32({1}), List{x[i]})), label = session.tensor(f32({1}), List{y[i]});
    EXPECT_NEAR(read(nn::binary_cross_entropy(logit, label))[0], losses[i], 1e-5) << "logit " << x[i] << ", label " << y[i];
    sum += losses[i];
  }
  const Value logits = leaf(expected.tensor(session, "bce.logits")), labels = expected.tensor(session, "bce.labels");
  const Value total = nn::binary_cross_entropy(logits, labels, LossReduction::sum);
  EXPECT_NEAR(read(total)[0], sum, 1e-4);
  const List got = read(gradient({total}, {logits})[0]);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], slopes[i], 1e-6) << "logit " << x[i] << ", label " << y[i];
  EXPECT_NEAR(read(nn::binary_cross_entropy(logits, labels))[0], sum / 12, 1e-5);
  EXPECT_EQ(testing::message_of<ShapeError>([&] { nn::binary_cross_entropy(logits, full(session, f32({3}), 0)); }),
            "binary_cross_entropy: logits are float32 [12] and labels float32 [3]; accepted: labels of the logits' shape and type");
}

}  // namespace
}  // namespace gemel::train
