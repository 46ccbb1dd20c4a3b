// BLEU: the quality of a translation by the n-grams, of one to four words, that it shares with the reference.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace gemel::train {

/// Counts for the score of a corpus. They merge by addition, so that the score does not depend on batches and shards.
struct BleuCounts {
  static constexpr std::size_t kLongest = 4;  // words of an n-gram
  /// [n - 1] n-grams of the hypotheses that are in their references, each at most as often as there.
  std::array<std::int64_t, kLongest> matches{};
  std::array<std::int64_t, kLongest> runs{};  // [n - 1] n-grams of the hypotheses
  std::int64_t hypothesis_words = 0, reference_words = 0;

  BleuCounts& operator+=(const BleuCounts& more);
  /// exp(mean over n of log(matches[n] / runs[n])) min(1, exp(1 - reference_words / hypothesis_words)), 0..1: the geometric mean of the n-gram precisions, with
  /// a penalty for hypotheses shorter than the references. 0 if some n has no match: there is no smoothing.
  /// Source: K. Papineni et al., BLEU: a method for automatic evaluation of machine translation, 2002, section 2.3
  double score() const;
};

/// Counts one sentence. Words are split by split_words.h and compared case-sensitively.
BleuCounts bleu_counts(std::string_view reference, std::string_view hypothesis);

}  // namespace gemel::train
