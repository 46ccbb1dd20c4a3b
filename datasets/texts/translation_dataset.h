// Translations: a data set of source and target texts, both encoded by one tokenizer.
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
  std::string name{};           // name that opens the data set
  std::int64_t vocabulary = 0;  // tokens are 0..vocabulary-1
  std::int64_t padding = 0;     // token after the end of shorter texts
  RowLengths lengths = RowLengths::of_all;
};

/// A batch has "source", int64 [N, S]; "target", int64 [N, T], without its last token; and "labels", int64 [N, T]: the token that follows each of the target's.
/// Shorter rows are padded at the end, labels with -1.
class Translations final : public Dataset {
 public:
  explicit Translations(TranslationsOptions options) : options_(std::move(options)) {}
  /// Adds a sample; both texts have their begin and end tokens.
  void add(std::span<const std::int64_t> source, std::span<const std::int64_t> target);
  /// Keeps the first `samples` samples.
  void keep(std::int64_t samples);

  std::string_view name() const override { return options_.name; }
  std::int64_t size() const override { return sources_.size(); }
  /// Size of the vocabulary.
  std::int64_t classes() const override { return options_.vocabulary; }
  /// Length of the source or of the target's labels, whichever is longer.
  std::int64_t length(std::int64_t i) const override;
  std::int64_t longest_source() const { return sources_.longest(); }
  /// Most labels of a target.
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
  std::filesystem::path folder{};  // holds train.tsv and dev.tsv: source TAB target, nothing is quoted
  std::int64_t max_length = 128;   // 2 or more; most tokens of a source with its ends, and most labels of a target with its end
  std::int64_t limit = 0;          // most samples of each split, the first ones; 0: all
  RowLengths lengths = RowLengths::of_all;
};
/// Reads and tokenizes both splits. Longer texts are truncated at the end.
/// @throws DataError naming file and line for other than two columns, or text that is not UTF-8 or has a NUL; naming the file if it is missing or has no lines;
///   if the vocabulary lacks tokens for the ends of texts
TranslationSplits open_translations(const Tokenizer& tokenizer, const TranslationOptions& options);

struct SyntheticTranslationsOptions {
  std::int64_t vocabulary = 30522, padding = 0;
  TextEnds ends{1, 2};
  std::int64_t length = 128;    // as max_length; a text has half of it or more
  std::int64_t samples = 2048;  // of the training split
  std::uint64_t seed = 1;
  RowLengths lengths = RowLengths::of_all;
};
/// Makes synthetic translations: each target is its source after a token that is always the same. It is the data set "synthetic" for models that translate.
/// @throws UsageError for a vocabulary without tokens besides ends and padding, or a length below 2
TranslationSplits synthetic_translations(const SyntheticTranslationsOptions& options);

}  // namespace gemel::datasets
