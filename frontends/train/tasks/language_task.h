// LanguageTask: trains language models, which predict the next token.
#pragma once
#include "frontends/train/tasks/task.h"

namespace gemel::train {

/// Returns the number of a batch's "labels" that are 0 or more.
/// @throws UsageError unless they are int32 or int64
double label_count(const datasets::Batch& batch);

/// The loss is the cross-entropy of the module's logits [N, T, V] for "ids" int64 [N, T] and "labels" int64 [N, T], divided by the number of labels; negative
/// labels are padding. Its metric is perplexity, the exponential of the mean loss.
class LanguageTask : public Task {
 public:
  /// @param module  must outlive this object
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
