// Speech: a data set of utterances with transcripts, as features of the sound and classes of the characters.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "datasets/loading/dataset.h"
#include "datasets/loading/padded_length.h"
#include "datasets/speech/log_mel.h"

namespace gemel::datasets {

/// One sample.
struct Utterance {
  std::int64_t frames;                           // 1 or more
  std::string text;                              // transcript as `spelled` returns it; empty if unknown
  std::function<std::vector<float>()> features;  // computes [frames, bands]; may be called from any thread
};

/// A batch has
/// - "features", float32 [N, T, B]: each band of an utterance normalised to mean 0 and variance 1, padded with zeros;
/// - "frames", int64 [N]: the number of frames of each utterance;
/// - "transcripts", int64 [N, L]: classes of characters (datasets/speech/characters.h), padded with -1; L is the longest transcript of the data set.
/// Features are computed on first use, in a few milliseconds for a second of sound. They are kept if those of all utterances take at most 512 MiB, which is
/// four hours of sound at 80 bands; else they are computed for each batch.
class Speech final : public Dataset {
 public:
  struct Options {
    std::string name;  // name that opens the data set
    std::int64_t bands;
    RowLengths lengths = RowLengths::of_all;
  };
  explicit Speech(Options options) : options_(std::move(options)) {}
  void add(Utterance utterance);

  std::string_view name() const override { return options_.name; }
  std::int64_t size() const override { return std::ssize(utterances_); }
  /// Number of classes of characters.
  std::int64_t classes() const override;
  std::int64_t length(std::int64_t i) const override { return utterances_[static_cast<std::size_t>(i)].frames; }
  const std::string& text(std::int64_t i) const { return utterances_[static_cast<std::size_t>(i)].text; }
  /// Most frames of an utterance, and most characters of a transcript.
  std::int64_t longest() const { return longest_; }
  std::int64_t longest_text() const { return longest_text_; }
  /// @throws DataError if a file has changed or cannot be read
  std::vector<HostTensor> tensors(std::span<const std::int64_t> samples, const std::optional<Draws>& draws = {}) const override;

 private:
  using Features = std::shared_ptr<const std::vector<float>>;
  Features features_of(std::int64_t sample) const;

  Options options_;
  std::vector<Utterance> utterances_;
  std::int64_t frames_ = 0, longest_ = 0, longest_text_ = 0;  // frames_: sum over all utterances
  mutable std::mutex mutex_;
  mutable std::vector<Features> kept_;  // [sample], null if not computed yet
};

struct SpeechSplits {
  std::unique_ptr<Speech> train, validation;
};

struct SpeechOptions {
  LogMelOptions features{};
  std::int64_t stride = 1;  // frames for each class that the model writes
  std::int64_t limit = 0;   // most samples of each split, the first ones; 0: all
  RowLengths lengths = RowLengths::of_all;
};

/// Reads FOLDER/train.tsv and dev.tsv. Each line is: WAV file TAB transcript, with the file's path relative to the folder.
/// @throws DataError naming file and line for a wrong number of columns; a WAV file that is missing, damaged, of another sample rate or too short for one
///   frame; a transcript that `spelled` refuses or that has more characters than its frames allow; naming the file if it is missing or has no lines
SpeechSplits open_speech(const std::filesystem::path& folder, const SpeechOptions& options);
/// Opens WAV files without transcripts, one a sample.
/// @throws DataError naming a file that is missing, damaged, of another sample rate or too short
std::unique_ptr<Speech> open_sounds(std::span<const std::string> files, const LogMelOptions& features);

}  // namespace gemel::datasets
