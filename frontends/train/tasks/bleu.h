// BLEU: how much of what a translator writes stands in the reference, in runs of one to four words.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace gemel::train {

/// What the score of a corpus is made of. They merge by addition, so that it does not depend on how the corpus is cut into batches and shards.
struct BleuCounts {
  static constexpr std::size_t kLongest = 4;     // words of a run
  std::array<std::int64_t, kLongest> matches{};  // [n - 1] runs of n words of the hypotheses that are their references', each as often as it is there at most
  std::array<std::int64_t, kLongest> runs{};     // [n - 1] of the hypotheses
  std::int64_t hypothesis_words = 0, reference_words = 0;

  BleuCounts& operator+=(const BleuCounts& more);
  /// exp(mean over n of log(matches[n] / runs[n])) min(1, exp(1 - reference_words / hypothesis_words)), 0..1: the geometric mean of the precisions of runs of
  /// one to four words, and a penalty where less is written than the references have. 0 where some length of run has no match: nothing is smoothed. Source: K.
  /// Papineni et al., BLEU: a method for automatic evaluation of machine translation, 2002, section 2.3
  double score() const;
};

/// Of one sentence. Words are those of split_words.h, compared as they are, letters' case included.
BleuCounts bleu_counts(std::string_view reference, std::string_view hypothesis);

}  // namespace gemel::train
