// Reduces elements of two or more ranks on the host. float16 and bfloat16 are reduced in float32.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/transport/communicator.h"

namespace gemel::parallel {

/// Computes to = to + from, or another reduction; `mean` adds, see `divide`.
/// @param from  as many elements as `to`
/// @throws ShapeError for booleans
void reduce_into(const Elements& to, const std::byte* from, Reduction reduction);

/// The same elements in the memory of each member. reduce_all reduces them in the order of `fold_order`, with the same bits as a tree of messages.
/// @param runs  [member] memory of its elements  @param results  memory for the reduction, may be that of runs
struct Runs {
  std::span<std::byte*const> runs, results;
  std::int64_t count;
  DType dtype;
};
void reduce_all(const Runs& runs, Reduction reduction);

/// Fills elements with the neutral element of a reduction, such as 0 for sum.
void fill_neutral(const Elements& elements, Reduction reduction);

/// Divides elements by the number of ranks; integers are rounded towards zero.
void divide(const Elements& elements, int ranks);

/// The order in which a tree reduces ranks: for each entry, the value of `second` is added to that of `first`. With p the largest power of two up to `ranks`,
/// the first 2 (ranks - p) ranks are combined in pairs, then the remaining p values by neighbours.
struct Join {
  int first, second;
};
std::vector<Join> fold_order(int ranks);

}  // namespace gemel::parallel
