#include "datasets/speech/speech_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "datasets/formats/tsv.h"
#include "datasets/formats/wav.h"
#include "datasets/speech/characters.h"
#include "engine/base/error.h"
#include "engine/base/files/steady_file.h"
#include "engine/base/numbers.h"

namespace gemel::datasets {
namespace {

constexpr const char* kName = "speech";

/// Each band of mean 0 and variance 1. @param features  [frames, bands]
void normalise(std::vector<float>& features, std::size_t bands) {
  constexpr double kLeast = 1e-5;  // is added to variances: a band that never changes becomes 0
  const auto frames = static_cast<double>(features.size() / bands);
  for (std::size_t b = 0; b < bands; ++b) {
    double sum = 0, squares = 0;
    for (std::size_t i = b; i < features.size(); i += bands) sum += features[i];
    const double mean = sum / frames;
    for (std::size_t i = b; i < features.size(); i += bands) squares += (features[i] - mean) * (features[i] - mean);
    const double scale = 1 / std::sqrt(squares / frames + kLeast);
    for (std::size_t i = b; i < features.size(); i += bands) features[i] = static_cast<float>((features[i] - mean) * scale);
  }
}

/// @param log_mel  of sound of that rate
Utterance utterance_of(const std::filesystem::path& wav, std::string text, const std::shared_ptr<const LogMel>& log_mel, std::int64_t sample_rate) {
  std::int64_t frames = 0;
  const FileStamp opened = stamp_of(wav);
  const std::int64_t samples = count_samples(wav, sample_rate);
  try {
    frames = log_mel->frames(samples);
  } catch (const DataError& e) {
    throw DataError(wav.string() + ": " + e.what());
  }
  const auto features = [wav, log_mel, sample_rate, opened, samples] {
    const Sound sound = read_wav(wav, sample_rate);
    require_unchanged(wav, opened, stamp_of(wav));
    if (std::ssize(sound.samples) != samples)
      throw DataError(fmt::format("{}: it has {} samples; accepted: {}, as when it was counted", wav.string(), sound.samples.size(), samples));
    return (*log_mel)(sound.samples);
  };
  return {frames, std::move(text), features};
}

/// A line's sample. @throws DataError what is wrong with it
Utterance utterance_of(const TsvFile::Columns& line, const std::filesystem::path& folder, const std::shared_ptr<const LogMel>& log_mel,
                       const SpeechOptions& options) {
  const std::size_t n = line.size();
  if (n != 2) throw DataError(fmt::format("it has {} column{}; accepted: 2, with a tab between: WAV file and transcript", n, n == 1 ? "" : "s"));
  if (line[0].empty()) throw DataError("its WAV file is empty; accepted: a path from the folder on");
  Utterance out = utterance_of(folder / line[0], spelled(line[1]), log_mel, options.features.sample_rate);
  const std::int64_t written = ceil_div(out.frames, options.stride), needed = least_classes(out.text);
  if (needed > written)
    throw DataError(
        fmt::format("its transcript takes {} steps of the model (a character each, and a blank between equal ones), its sound of {} frames gives "
                    "{}; accepted: no more",
                    needed, out.frames, written));
  return out;
}

std::unique_ptr<Speech> read(const std::filesystem::path& path, const std::shared_ptr<const LogMel>& log_mel, const SpeechOptions& options) {
  const TsvFile file(kName, path);
  auto out = std::make_unique<Speech>(Speech::Options{kName, log_mel->bands(), options.lengths});
  file.each_line([&](const TsvFile::Columns& line) {
    out->add(utterance_of(line, path.parent_path(), log_mel, options));
    return options.limit == 0 || out->size() < options.limit;
  });
  if (out->size() == 0) throw DataError(fmt::format("{} has no lines; accepted: WAV file and transcript in each, with a tab between", file.title()));
  return out;
}

}  // namespace

void Speech::add(Utterance utterance) {
  frames_ += utterance.frames;
  longest_ = std::max(longest_, utterance.frames);
  longest_text_ = std::max(longest_text_, std::ssize(utterance.text));
  utterances_.push_back(std::move(utterance));
  kept_.emplace_back();
}

std::int64_t Speech::classes() const { return kCharacterClasses; }

Speech::Features Speech::features_of(std::int64_t sample) const {
  constexpr std::int64_t kMostKept = std::int64_t{512} << 20;  // bytes
  {
    const std::lock_guard lock(mutex_);
    if (kept_[at(sample)]) return kept_[at(sample)];
  }
  std::vector<float> made = utterances_[at(sample)].features();
  normalise(made, at(options_.bands));
  auto out = std::make_shared<const std::vector<float>>(std::move(made));
  if (f32({frames_, options_.bands}).bytes() > kMostKept) return out;
  const std::lock_guard lock(mutex_);
  kept_[at(sample)] = out;
  return out;
}

std::vector<HostTensor> Speech::tensors(std::span<const std::int64_t> samples, const std::optional<Draws>&) const {
  const std::int64_t n = std::ssize(samples), width = row_length(*this, samples, options_.lengths, longest_);
  std::vector<float> features(at(n * width * options_.bands), 0);
  std::vector<std::int64_t> frames, transcripts(at(n * longest_text_), -1);
  for (std::size_t j = 0; j < samples.size(); ++j) {
    const Utterance& utterance = utterances_[at(samples[j])];
    std::ranges::copy(*features_of(samples[j]), features.begin() + static_cast<std::ptrdiff_t>(j) * width * options_.bands);
    frames.push_back(utterance.frames);
    std::ranges::transform(utterance.text, transcripts.begin() + static_cast<std::ptrdiff_t>(j) * longest_text_, class_of);
  }
  return {host_tensor("features", {n, width, options_.bands}, std::span<const float>(features)),
          host_tensor("frames", {n}, std::span<const std::int64_t>(frames)),
          host_tensor("transcripts", {n, longest_text_}, std::span<const std::int64_t>(transcripts))};
}

SpeechSplits open_speech(const std::filesystem::path& folder, const SpeechOptions& options) {
  const auto log_mel = std::make_shared<const LogMel>(options.features);
  return {read(folder / "train.tsv", log_mel, options), read(folder / "dev.tsv", log_mel, options)};
}

std::unique_ptr<Speech> open_sounds(std::span<const std::string> files, const LogMelOptions& features) {
  const auto log_mel = std::make_shared<const LogMel>(features);
  auto out = std::make_unique<Speech>(Speech::Options{kName, log_mel->bands()});
  for (const std::string& file : files) out->add(utterance_of(file, "", log_mel, features.sample_rate));
  return out;
}

}  // namespace gemel::datasets
