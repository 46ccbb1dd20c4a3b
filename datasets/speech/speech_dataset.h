// Speech with transcripts: features of the sound and the classes of the characters.
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
  std::string text;                              // as `spelled` gives it; empty where nothing is known
  std::function<std::vector<float>()> features;  // [frames, bands], from any thread
};

/// A batch has "features", float32 [N, T, B], each band of an utterance of mean 0 and variance 1, followed by zeros; "frames", int64 [N]: how many are the
/// utterance's; and "transcripts", int64 [N, L]: classes of characters (datasets/speech/characters.h), followed by -1. L is that of the longest text of all.
/// Features are computed when they are first asked for, a few milliseconds a second of sound, and kept where those of all utterances take 512 MiB or less: four
/// hours at 80 bands. Of more they are computed whenever a batch is made, as the samples are read again.
class Speech final : public Dataset {
 public:
  struct Options {
    std::string name;  // that the data set is opened by
    std::int64_t bands;
    RowLengths lengths = RowLengths::of_all;
  };
  explicit Speech(Options options) : options_(std::move(options)) {}
  void add(Utterance utterance);

  std::string_view name() const override { return options_.name; }
  std::int64_t size() const override { return std::ssize(utterances_); }
  /// Of characters.
  std::int64_t classes() const override;
  std::int64_t length(std::int64_t i) const override { return utterances_[static_cast<std::size_t>(i)].frames; }
  const std::string& text(std::int64_t i) const { return utterances_[static_cast<std::size_t>(i)].text; }
  /// Frames of the longest, and characters of the longest text.
  std::int64_t longest() const { return longest_; }
  std::int64_t longest_text() const { return longest_text_; }
  /// @throws DataError where a file can no longer be read as it was
  std::vector<HostTensor> tensors(std::span<const std::int64_t> samples, const std::optional<Draws>& draws = {}) const override;

 private:
  using Features = std::shared_ptr<const std::vector<float>>;
  Features features_of(std::int64_t sample) const;

  Options options_;
  std::vector<Utterance> utterances_;
  std::int64_t frames_ = 0, longest_ = 0, longest_text_ = 0;  // frames of all
  mutable std::mutex mutex_;
  mutable std::vector<Features> kept_;  // [sample], null where they have not been computed
};

struct SpeechSplits {
  std::unique_ptr<Speech> train, validation;
};

struct SpeechOptions {
  LogMelOptions features{};
  std::int64_t stride = 1;  // frames for each class that the model writes
  std::int64_t limit = 0;   // at most so many samples of each split, the first ones; 0: all
  RowLengths lengths = RowLengths::of_all;
};

/// Reads FOLDER/train.tsv and dev.tsv: WAV file TAB transcript in each line, paths from the folder on.
/// @throws DataError naming file and line: other columns; a WAV file that is missing, damaged, of another sample rate or too short for a frame; a transcript
///         that `spelled` refuses, or of more characters than can be written in its frames; naming the file: it is missing or has no lines
SpeechSplits open_speech(const std::filesystem::path& folder, const SpeechOptions& options);
/// WAV files without transcripts, one a sample. @throws DataError as above, naming the file
std::unique_ptr<Speech> open_sounds(std::span<const std::string> files, const LogMelOptions& features);

}  // namespace gemel::datasets
