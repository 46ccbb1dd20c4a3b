// What a checkpoint in the middle of an epoch lacks where ranks train parts of batches in any order.
#pragma once
#include <cstdint>
#include <vector>

#include "frontends/train/ranks.h"

namespace gemel::train {

/// Adds parts that are not trained, though others behind them are, to what is saved; nothing where there are none.
/// @param missing  numbers of parts in the epoch  @param parts  of each batch
void put_missing_parts(RanksState& state, const std::vector<std::int64_t>& missing, std::int64_t parts);

/// @param parts  of each batch, as this run's ranks train them; 0: they train whole batches in their order
/// @throws UsageError if parts of another division are missing: others would be trained twice. DataError for text that is not numbers
std::vector<std::int64_t> missing_parts_in(const RanksState& state, std::int64_t parts);

}  // namespace gemel::train
