#include "frontends/train/tasks/word_error_rate.h"

#include <limits>

#include "engine/base/text/edit_distance.h"
#include "frontends/train/tasks/split_words.h"

namespace gemel::train {

std::vector<std::int64_t> greedy_ctc(std::span<const std::int64_t> classes, std::int64_t blank) {
  std::vector<std::int64_t> out;
  std::int64_t before = blank;
  for (const std::int64_t c : classes) {
    if (c != blank && c != before) out.push_back(c);
    before = c;
  }
  return out;
}

double WordErrors::rate() const {
  if (words > 0) return static_cast<double>(errors) / static_cast<double>(words);
  return errors > 0 ? std::numeric_limits<double>::infinity() : 0;
}

WordErrors word_errors(std::string_view reference, std::string_view hypothesis) {
  const std::vector<std::string_view> said = words_of(reference), written = words_of(hypothesis);
  const auto all = [](const std::vector<std::string_view>& words) { return std::span<const std::string_view>(words); };
  return {static_cast<std::int64_t>(edit_distance(all(said), all(written))), static_cast<std::int64_t>(said.size())};
}

}  // namespace gemel::train
