// The task of models that translate.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "frontends/train/tasks/task.h"

namespace gemel::train {

struct TranslationTaskOptions {
  std::int64_t end = 2;                                                       // the token behind a translation
  double label_smoothing = 0;                                                 // of the loss, in training and evaluation alike; 0..1
  std::function<std::string(const std::vector<std::int64_t>&)> text_of = {};  // of tokens; BLEU is over its words
};

/// A batch has "source" int64 [N, S], "target" int64 [N, T] and "labels" int64 [N, T]: the token that follows each of the target's, below 0 where there is
/// none. Of source and target the module gives logits [N, T, V], whose cross-entropy is summed over the labels and divided by their number.
/// In evaluation mode it also translates the source alone: tokens int64 [N, L]; what lies behind the first `end` counts nothing. The metrics, of which there
/// are none where the module is cut into stages, are then
/// - bleu: BleuCounts::score of all translations against the labels, as texts without `end`;
/// - token_accuracy: the share of labels, `end` among them, that the translation has at the same place.
class TranslationTask : public Task {
 public:
  /// @param module  must outlive it
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

/// What stands before the first `end` in a row of tokens.
std::vector<std::int64_t> before_end(std::span<const double> row, std::int64_t end);

}  // namespace gemel::train
