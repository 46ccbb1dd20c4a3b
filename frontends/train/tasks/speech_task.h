// The task of models that recognise speech: which characters were said.
#pragma once
#include <string>
#include <vector>

#include "frontends/train/tasks/task.h"

namespace gemel::train {

/// A batch is one of datasets::Speech. The module takes "features" and "frames" and gives log-probabilities float32 [N, P, C] of characters and the blank, and
/// how many of a sample's P count, int64 [N]. The loss is connectionist temporal classification's, a mean over samples: infinite where a transcript does not
/// fit its frames. Its metrics are wer, the errors of words over the words that were said, and cer, the same of characters, of the likeliest class at each
/// frame; the smaller the better.
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

/// What a model of speech writes, greedily. @param classes  the likeliest of each frame, [N, P]  @param frames  of each sample that count
/// @return  a text for each sample
std::vector<std::string> texts_of(std::span<const double> classes, std::span<const double> frames);

}  // namespace gemel::train
