// Translations: pairs of a source and a target, each as the numbers of one tokenizer.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "datasets/loading/dataset.h"
#include "datasets/texts/token_sequences.h"
#include "datasets/texts/tokenizer.h"

namespace gemel::datasets {

struct TranslationsOptions {
  std::string name{};           // that the data set is opened by
  std::int64_t vocabulary = 0;  // tokens are 0..vocabulary-1
  std::int64_t padding = 0;     // token behind the end of shorter texts
  RowLengths lengths = RowLengths::of_all;
};

/// A batch has "source", int64 [N, S], padded behind; "target", int64 [N, T], without its last token, padded behind; and "labels", int64 [N, T]: the
/// token that follows each of the target's, -1 behind the last.
class Translations final : public Dataset {
 public:
  explicit Translations(TranslationsOptions options) : options_(std::move(options)) {}
  /// Each between its ends.
  void add(std::span<const std::int64_t> source, std::span<const std::int64_t> target);
  /// Drops all but the first so many.
  void keep(std::int64_t samples);

  std::string_view name() const override { return options_.name; }
  std::int64_t size() const override { return sources_.size(); }
  /// The vocabulary's tokens.
  std::int64_t classes() const override { return options_.vocabulary; }
  /// Of the source or the target's labels, the longer of the two.
  std::int64_t length(std::int64_t i) const override;
  std::int64_t longest_source() const { return sources_.longest(); }
  /// Labels of the longest.
  std::int64_t longest_target() const { return labels_.longest(); }
  std::vector<HostTensor> tensors(std::span<const std::int64_t> samples, const std::optional<Draws>& draws = {}) const override;

 private:
  TranslationsOptions options_;
  TokenRows sources_, targets_, labels_;  // [sample]
};

struct TranslationSplits {
  std::unique_ptr<Translations> train, validation;
};

struct TranslationOptions {
  std::filesystem::path folder{};  // that holds train.tsv and dev.tsv: source TAB target, nothing is quoted
  std::int64_t max_length = 128;   // tokens of a source, its ends among them, and labels of a target, its end among them: 2 or more
  std::int64_t limit = 0;          // at most so many samples of each split, the first ones; 0: all
  RowLengths lengths = RowLengths::of_all;
};
/// Reads and tokenizes both splits. What is longer is cut behind.
/// @throws DataError naming file and line: other than two columns, text that is not UTF-8 or has a NUL; naming the file: it is missing or has no lines; a
///         vocabulary without tokens for the ends of texts
TranslationSplits open_translations(const Tokenizer& tokenizer, const TranslationOptions& options);

struct SyntheticTranslationsOptions {
  std::int64_t vocabulary = 30522, padding = 0;
  TextEnds ends{1, 2};
  std::int64_t length = 128;    // as max_length; a text has half of it or more
  std::int64_t samples = 2048;  // of the training split
  std::uint64_t seed = 1;
  RowLengths lengths = RowLengths::of_all;
};
/// synthetic, for models that translate: each target is its source, behind a token that is always the same.
/// @throws UsageError for a vocabulary that has no token besides ends and padding, or a length below 2
TranslationSplits synthetic_translations(const SyntheticTranslationsOptions& options);

}  // namespace gemel::datasets
