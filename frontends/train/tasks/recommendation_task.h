// RecommendationTask: trains models that recommend items which a user has not met.
#pragma once
#include <string>
#include <vector>

#include "frontends/train/tasks/task.h"

namespace gemel::train {

/// A batch has "users" and "items" [N, K], which the module takes, and "labels" float32 [N, K], the probability of an interaction. The loss is the mean binary
/// cross-entropy. If K > 1, the K items of a sample are candidates, and the one at column 0 is to be found. Its place is that in the order of falling logits,
/// after all other candidates of equal logit. Metrics are hit_rate_at_10, the share of samples of place 1..10, and ndcg_at_10, the mean of 1 / log2(1 + place)
/// for these and 0 for others. With K = 1 there are no metrics.
/// Source: X. He et al., Neural collaborative filtering, 2017, sections 3.1 and 4.1.
class RecommendationTask : public Task {
 public:
  explicit RecommendationTask(nn::Module& module) : module_(module) {}
  nn::Module& module() override { return module_; }
  std::vector<std::string> inputs() const override { return {"users", "items", "labels"}; }
  Outcome forward(const Inputs& batch) override;
  /// Returns the number of labels, K for each sample.
  double weight(const datasets::Batch& batch) const override;
  std::vector<double> count(const datasets::Batch& batch, std::span<const std::vector<double>> outputs) const override;
  std::vector<Metric> metrics(const Sums& sums) const override;

 private:
  nn::Module& module_;
};

}  // namespace gemel::train
