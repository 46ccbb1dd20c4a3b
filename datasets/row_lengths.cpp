#include "datasets/row_lengths.h"

#include <algorithm>

namespace gemel::datasets {

std::int64_t rounded_length(std::int64_t length) {
  constexpr std::int64_t kShortest = 16;
  std::int64_t power = kShortest;
  while (2 * power < length) power *= 2;
  if (length <= power) return power;
  return length <= power + power / 2 ? power + power / 2 : 2 * power;
}

std::int64_t row_length(const Dataset& data, std::span<const std::int64_t> samples, RowLengths lengths, std::int64_t longest) {
  if (lengths == RowLengths::of_all) return longest;
  std::int64_t of_these = 1;
  for (const std::int64_t i : samples) of_these = std::max(of_these, data.length(i));
  return std::min(rounded_length(of_these), longest);
}

}  // namespace gemel::datasets
