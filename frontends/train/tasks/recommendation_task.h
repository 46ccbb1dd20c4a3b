// The task of models that recommend: which items users will meet, of those that they have not met.
#pragma once
#include <string>
#include <vector>

#include "frontends/train/tasks/task.h"

namespace gemel::train {

/// A batch has "users" and "items" [N, K], which the module takes, and "labels" float32 [N, K]: the probability of a meeting. The loss is the mean binary
/// cross-entropy. Where a sample has several candidates, K > 1, the one at column 0 is looked for among them. Of the candidates by falling logits it has the
/// place behind all that are no less: ties count against it. Its metrics are hit_rate_at_10, the share of samples where that is one of the first ten, and
/// ndcg_at_10, the mean of 1 / log2(1 + place) where it is, place 1..10, and of 0 elsewhere. There are none of single candidates.
/// Source: X. He et al., Neural collaborative filtering, 2017, sections 3.1 and 4.1.
class RecommendationTask : public Task {
 public:
  explicit RecommendationTask(nn::Module& module) : module_(module) {}
  nn::Module& module() override { return module_; }
  std::vector<std::string> inputs() const override { return {"users", "items", "labels"}; }
  Outcome forward(const Inputs& batch) override;
  /// Of the labels, of which a sample has K.
  double weight(const datasets::Batch& batch) const override;
  std::vector<double> count(const datasets::Batch& batch, std::span<const std::vector<double>> outputs) const override;
  std::vector<Metric> metrics(const Sums& sums) const override;

 private:
  nn::Module& module_;
};

}  // namespace gemel::train
