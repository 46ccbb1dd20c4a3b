// SpeechTask: trains models that recognise speech as characters.
#pragma once
#include <string>
#include <vector>

#include "frontends/train/tasks/task.h"

namespace gemel::train {

/// A batch is one of datasets::Speech. The module takes "features" and "frames", and returns log-probabilities float32 [N, P, C] of characters and the blank,
/// and the number of each sample's P that are valid, int64 [N]. The loss is CTC's, a mean over samples; it is infinite if a transcript does not fit its frames.
/// Metrics, of the most likely class of each frame, are the word error rate `wer` and the character error rate `cer`; lower is better.
class SpeechTask : public Task {
 public:
  explicit SpeechTask(nn::Module& module) : module_(module) {}
  nn::Module& module() override { return module_; }
  std::vector<std::string> inputs() const override { return {"features", "frames", "transcripts"}; }
  Outcome forward(const Inputs& batch) override;
  std::vector<double> count(const datasets::Batch& batch, std::span<const std::vector<double>> outputs) const override;
  std::vector<Metric> metrics(const Sums& sums) const override;

 private:
  nn::Module& module_;
};

/// Decodes the output of a speech model greedily.
/// @param classes  most likely class of each frame, [N, P]  @param frames  number of valid frames of each sample
/// @return [N] texts
std::vector<std::string> texts_of(std::span<const double> classes, std::span<const double> frames);

}  // namespace gemel::train
