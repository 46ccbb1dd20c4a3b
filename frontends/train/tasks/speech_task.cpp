#include "frontends/train/tasks/speech_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "datasets/speech/characters.h"
#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/base/text/edit_distance.h"
#include "engine/ops/ops.h"
#include "frontends/train/tasks/word_error_rate.h"

namespace gemel::train {
namespace {

constexpr std::size_t kWordErrors = 0, kWords = 1, kCharacterErrors = 2, kCharacters = 3, kSpeechCounts = 4;

/// int64 [N] how many of a row are classes: what follows is below 0.
Value lengths_of(const Value& transcripts) {
  const Value none = full(transcripts.session(), {Shape{}, transcripts.dtype()}, 0);
  return cast(sum(cast(greater_equal(transcripts, none), DType::float32), {1}), transcripts.dtype());
}

/// The text of each row of a batch's transcripts.
std::vector<std::string> said_in(const datasets::HostTensor& transcripts, std::int64_t samples) {
  if (!is_integer(transcripts.spec.dtype) || transcripts.spec.shape.rank() != 2 || transcripts.spec.shape[0] != samples)
    throw UsageError(fmt::format("speech: transcripts is {}; accepted: int32 or int64 [{}, L]", to_string(transcripts.spec), samples));
  const std::vector<double> numbers = numbers_from_bytes(transcripts.spec.dtype, *transcripts.bytes);
  const std::size_t width = at(transcripts.spec.shape[1]);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < at(samples); ++i) {
    const auto row = std::span(numbers).subspan(i * width, width);
    out.push_back(datasets::text_of(std::vector<std::int64_t>(row.begin(), std::ranges::find_if(row, [](double c) { return c < 0; }))));
  }
  return out;
}

}  // namespace

Outcome SpeechTask::forward(const Inputs& batch) {
  Values given = module_(Values{batch["features"], batch["frames"]});
  const Value &log_probs = given.at(0), &frames = given.at(1), &transcripts = batch["transcripts"];
  Outcome out{.loss = ctc_loss(log_probs, frames, {transcripts, lengths_of(transcripts)}, {.blank = datasets::kBlank}, LossReduction::sum)};
  out.outputs = {argmax(log_probs.detached(), 2), frames.detached()};
  return out;
}

std::vector<double> SpeechTask::count(const datasets::Batch& batch, std::span<const std::vector<double>> outputs) const {
  std::vector<double> counts(kSpeechCounts, 0);
  const std::vector<std::string> said = said_in(batch["transcripts"], batch.samples), written = texts_of(outputs[0], outputs[1]);
  for (std::size_t i = 0; i < said.size(); ++i) {
    const WordErrors of_words = word_errors(said[i], written[i]);
    counts[kWordErrors] += static_cast<double>(of_words.errors);
    counts[kWords] += static_cast<double>(of_words.words);
    counts[kCharacterErrors] += static_cast<double>(edit_distance(std::string_view(said[i]), std::string_view(written[i])));
    counts[kCharacters] += static_cast<double>(said[i].size());
  }
  return counts;
}

std::vector<Metric> SpeechTask::metrics(const Sums& sums) const {
  std::vector<double> c = sums.counts;
  c.resize(kSpeechCounts, 0);
  const auto rate = [](double errors, double of) { return WordErrors{static_cast<std::int64_t>(errors), static_cast<std::int64_t>(of)}.rate(); };
  return {{"wer", rate(c[kWordErrors], c[kWords])}, {"cer", rate(c[kCharacterErrors], c[kCharacters])}};
}

std::vector<std::string> texts_of(std::span<const double> classes, std::span<const double> frames) {
  const std::size_t width = frames.empty() ? 0 : classes.size() / frames.size();
  std::vector<std::string> out;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const auto row = classes.subspan(i * width, static_cast<std::size_t>(frames[i]));
    out.push_back(datasets::text_of(greedy_ctc(std::vector<std::int64_t>(row.begin(), row.end()), datasets::kBlank)));
  }
  return out;
}

}  // namespace gemel::train
