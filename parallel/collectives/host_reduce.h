// The arithmetic of collectives on the host: runs of elements of two or more ranks become one, in float32 where they take two bytes.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/transport/communicator.h"

namespace gemel::parallel {

/// to = to + from, or as the reduction says (`mean` adds; see `divide`). @param from  as many elements as `to`
/// @throws ShapeError for booleans
void reduce_into(const Elements& to, const std::byte* from, Reduction reduction);

/// All members' runs become their reduction, in the order of `fold_order`: what a tree of messages gives, bit for bit.
/// @param runs  [member] the same elements of each  @param results  where the reduction is written, which may be runs
struct Runs {
  std::span<std::byte*const> runs, results;
  std::int64_t count;
  DType dtype;
};
void reduce_all(const Runs& runs, Reduction reduction);

/// What leaves others as they are when it is joined to them: zeros where they are added.
void fill_neutral(const Elements& elements, Reduction reduction);

/// Divides by the number of ranks; integers are rounded towards zero.
void divide(const Elements& elements, int ranks);

/// The order in which a tree joins ranks: entry by entry, the value of `second` is added to that of `first`. With p the largest power of
/// two that is not above `ranks`, the first 2 (ranks - p) of them are joined in pairs, then the p values that there are by neighbours.
struct Join {
  int first, second;
};
std::vector<Join> fold_order(int ranks);

}  // namespace gemel::parallel
