// Word error rate of recognised speech.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace gemel::train {

/// Decodes CTC greedily: takes the first of each run of one class, without blanks.
/// @param classes  most likely class of each valid frame
std::vector<std::int64_t> greedy_ctc(std::span<const std::int64_t> classes, std::int64_t blank = 0);

/// Counts of words, which merge by addition, so that the rate is that of all words of a data set.
struct WordErrors {
  std::int64_t errors = 0, words = 0;

  WordErrors& operator+=(const WordErrors& more) {
    errors += more.errors;
    words += more.words;
    return *this;
  }
  /// Returns the word error rate, which is above 1 if more is written than was said. Without reference words it is 0, or infinity if something is written.
  double rate() const;
};

/// Counts words inserted, deleted and replaced, and the words of the reference. Words are split by split_words.h.
WordErrors word_errors(std::string_view reference, std::string_view hypothesis);

}  // namespace gemel::train
