// Rows of a batch whose samples differ in length.
#pragma once
#include <cstdint>
#include <span>

#include "datasets/dataset.h"

namespace gemel::datasets {

/// How long the rows of a batch are: as its longest sample rounded up to one of a few lengths, so that there are few kinds of batches, or as the
/// longest sample of all.
enum class RowLengths { of_batch, of_all };

/// The least of 16, 24, 32, 48, 64, 96 and so on that is no shorter.
std::int64_t rounded_length(std::int64_t length);

/// Of a batch of these samples. @param longest  of all samples
std::int64_t row_length(const Dataset& data, std::span<const std::int64_t> samples, RowLengths lengths, std::int64_t longest);

}  // namespace gemel::datasets
