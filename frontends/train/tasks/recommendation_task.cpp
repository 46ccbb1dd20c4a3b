#include "frontends/train/tasks/recommendation_task.h"

#include <cmath>
#include <utility>

#include "engine/ops/ops.h"
#include "frontends/nn/loss.h"

namespace gemel::train {
namespace {

constexpr double kFirst = 10;                                                 // places that count
constexpr std::size_t kRanked = 0, kHits = 1, kGain = 2, kRankingCounts = 3;  // samples that were ranked, those with a place that counts, their gain

/// [N] how many candidates stand before the one at column 0: those that are not less, NaN among them.
Value before_first(const Value& logits) {
  const std::int64_t n = logits.shape()[0], candidates = logits.shape()[1];
  Value first = slice(logits, {0, 0}, {n, 1}), others = slice(logits, {0, 1}, {n, candidates});
  return sum(cast(logical_not(less(std::move(others), std::move(first))), DType::float32), {1});
}

}  // namespace

Outcome RecommendationTask::forward(const Inputs& batch) {
  Value logits = module_(Values{batch["users"], batch["items"]}).at(0);
  Outcome out;
  if (logits.shape()[1] > 1) out.outputs = {before_first(logits.detached())};
  out.loss = nn::binary_cross_entropy(std::move(logits), batch["labels"], LossReduction::sum);
  return out;
}

double RecommendationTask::weight(const datasets::Batch& batch) const { return static_cast<double>(batch["labels"].spec.elements()); }

std::vector<double> RecommendationTask::count(const datasets::Batch&, std::span<const std::vector<double>> outputs) const {
  std::vector<double> counts(kRankingCounts, 0);
  if (outputs.empty()) return counts;
  for (const double before : outputs[0]) {
    ++counts[kRanked];
    if (before >= kFirst) continue;
    ++counts[kHits];
    counts[kGain] += 1 / std::log2(2 + before);
  }
  return counts;
}

std::vector<Metric> RecommendationTask::metrics(const Sums& sums) const {
  if (sums.counts.size() < kRankingCounts || sums.counts[kRanked] == 0) return {};
  return {{"hit_rate_at_10", sums.counts[kHits] / sums.counts[kRanked]}, {"ndcg_at_10", sums.counts[kGain] / sums.counts[kRanked]}};
}

}  // namespace gemel::train
