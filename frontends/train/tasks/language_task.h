// The task of a language model: the token that follows each.
#pragma once
#include "frontends/train/tasks/task.h"

namespace gemel::train {

/// How many of a batch's "labels" are none below 0. @throws UsageError unless they are int32 or int64
double label_count(const datasets::Batch& batch);

/// Cross-entropy of the module's logits [N, T, V] for "ids" int64 [N, T] against "labels" int64 [N, T]; where a label is below 0 there is none.
/// Losses are divided by the number of labels. Its metric is perplexity, the exponential of the mean loss.
class LanguageTask : public Task {
 public:
  /// @param module  must outlive it
  explicit LanguageTask(nn::Module& module) : module_(module) {}
  nn::Module& module() override { return module_; }
  std::vector<std::string> inputs() const override { return {"ids", "labels"}; }
  Outcome forward(const Inputs& batch) override;
  double weight(const datasets::Batch& batch) const override;
  std::vector<Metric> metrics(const Sums& sums) const override;

 private:
  nn::Module& module_;
};

}  // namespace gemel::train
