// What a recogniser of speech wrote, and how many words of it are wrong.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace gemel::train {

/// The labels of the likeliest alignment of connectionist temporal classification: of runs of one class the first, without blanks.
/// @param classes  the likeliest of each frame that counts
std::vector<std::int64_t> greedy_ctc(std::span<const std::int64_t> classes, std::int64_t blank = 0);

/// They merge by addition, so that the rate of a data set is that of all its words.
struct WordErrors {
  std::int64_t errors = 0, words = 0;

  WordErrors& operator+=(const WordErrors& more) {
    errors += more.errors;
    words += more.words;
    return *this;
  }
  /// The word error rate, above 1 where more is written than was said. Without words 0, or where something is written all the same, infinity.
  double rate() const;
};

/// Words inserted, deleted and replaced, and the words of the reference. Words are those of split_words.h.
WordErrors word_errors(std::string_view reference, std::string_view hypothesis);

}  // namespace gemel::train
