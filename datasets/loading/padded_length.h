// Row lengths of padded batches, whose samples differ in length.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

namespace gemel::datasets {

/// of_batch: the longest sample of the batch, rounded up to one of a few lengths, so that few different shapes occur. of_all: the longest sample of the data
/// set.
enum class RowLengths { of_batch, of_all };

/// Rounds a length up to one of 16, 24, 32, 48, 64, 96 and so on.
std::int64_t rounded_length(std::int64_t length);

/// Returns the row length of a batch of these samples.
/// @param data  has length(i), the length of each sample
/// @param longest  of all samples of the data set
template <class Data>
std::int64_t row_length(const Data& data, std::span<const std::int64_t> samples, RowLengths lengths, std::int64_t longest) {
  if (lengths == RowLengths::of_all) return longest;
  std::int64_t of_these = 1;
  for (const std::int64_t i : samples) of_these = std::max(of_these, data.length(i));
  return std::min(rounded_length(of_these), longest);
}

}  // namespace gemel::datasets
