#include "datasets/token_rows.h"

#include <algorithm>

#include "engine/base/span.h"

namespace gemel::datasets {

std::int64_t rounded_length(std::int64_t length) {
  constexpr std::int64_t kShortest = 16;
  std::int64_t power = kShortest;
  while (2 * power < length) power *= 2;
  if (length <= power) return power;
  return length <= power + power / 2 ? power + power / 2 : 2 * power;
}

void TokenRows::add(std::span<const std::int64_t> ids) {
  for (const std::int64_t id : ids) ids_.push_back(narrow<std::int32_t>(id));
  ends_.push_back(std::ssize(ids_));
  longest_ = std::max(longest_, std::ssize(ids));
}

void TokenRows::keep(std::int64_t texts) {
  if (texts >= size()) return;
  ends_.resize(at(texts) + 1);
  ids_.resize(at(ends_.back()));
  longest_ = 0;
  for (std::int64_t i = 0; i < texts; ++i) longest_ = std::max(longest_, length(i));
}

std::span<const std::int32_t> TokenRows::operator[](std::int64_t i) const { return std::span(ids_).subspan(at(ends_[at(i)]), at(length(i))); }

std::int64_t TokenRows::row_length(std::span<const std::int64_t> texts, RowLengths lengths) const {
  if (lengths == RowLengths::of_all) return longest_;
  std::int64_t longest = 1;
  for (const std::int64_t i : texts) longest = std::max(longest, length(i));
  return std::min(rounded_length(longest), longest_);
}

}  // namespace gemel::datasets
