// TranslationTask: trains models that translate.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "frontends/train/tasks/task.h"

namespace gemel::train {

struct TranslationTaskOptions {
  std::int64_t end = 2;                                                       // token after a translation
  double label_smoothing = 0;                                                 // of the loss, in training and evaluation; 0..1
  std::function<std::string(const std::vector<std::int64_t>&)> text_of = {};  // converts tokens to text; BLEU is over its words
};

/// A batch has "source" int64 [N, S], "target" int64 [N, T] and "labels" int64 [N, T]: the token that follows each of the target's, negative for padding. From
/// source and target the module computes logits [N, T, V]; the loss is their cross-entropy divided by the number of labels.
/// In evaluation mode the module also translates the source alone: tokens int64 [N, L], of which those after the first `end` are ignored. The metrics, which a
/// module in stages does not have, are
/// - bleu: BleuCounts::score of all translations and labels, as texts without `end`;
/// - token_accuracy: share of labels, `end` included, that the translation has at the same position.
class TranslationTask : public Task {
 public:
  /// @param module  must outlive this object
  TranslationTask(nn::Module& module, TranslationTaskOptions options) : module_(module), options_(std::move(options)) {}
  nn::Module& module() override { return module_; }
  void cut_into_stages() override { translates_ = false; }
  std::vector<std::string> inputs() const override { return {"source", "target", "labels"}; }
  Outcome forward(const Inputs& batch) override;
  double weight(const datasets::Batch& batch) const override;
  std::vector<double> count(const datasets::Batch& batch, std::span<const std::vector<double>> outputs) const override;
  std::vector<Metric> metrics(const Sums& sums) const override;

 private:
  nn::Module& module_;
  TranslationTaskOptions options_;
  bool translates_ = true;  // in evaluation
};

/// Returns the tokens of a row before its first `end`.
std::vector<std::int64_t> before_end(std::span<const double> row, std::int64_t end);

}  // namespace gemel::train
