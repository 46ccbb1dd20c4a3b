// Rows of a batch whose samples differ in length.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

namespace gemel::datasets {

/// How long the rows of a batch are: as its longest sample rounded up to one of a few lengths, so that there are few kinds of batches, or as the
/// longest sample of all.
enum class RowLengths { of_batch, of_all };

/// The least of 16, 24, 32, 48, 64, 96 and so on that is no shorter.
std::int64_t rounded_length(std::int64_t length);

/// Of a batch of these samples. @param data  that tells the length of each sample, length(i)  @param longest  of all samples
template <class Data>
std::int64_t row_length(const Data& data, std::span<const std::int64_t> samples, RowLengths lengths, std::int64_t longest) {
  if (lengths == RowLengths::of_all) return longest;
  std::int64_t of_these = 1;
  for (const std::int64_t i : samples) of_these = std::max(of_these, data.length(i));
  return std::min(rounded_length(of_these), longest);
}

}  // namespace gemel::datasets
