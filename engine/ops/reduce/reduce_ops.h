// What the reductions over axes share: how axes fold, how long series are cut, and the variants of their kernels.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/ops/common.h"

namespace gemel::inline ops {

/// x as [outer, reduced, inner], where one run of neighbouring axes is reduced (axes of extent 1 fit anywhere).
struct Runs {
  std::int64_t outer = 1, reduced = 1, inner = 1;
  bool possible = true;
};
Runs runs_of(const Shape& shape, const std::vector<std::int64_t>& axes);

/// The reduced axes of a problem with an attribute `axes`, normalised.
std::vector<std::int64_t> reduced_axes(const Problem& p);
/// Elements that each output element is made of.
std::int64_t reduced_count(const Shape& shape, const std::vector<std::int64_t>& axes);

enum class Reduction { sum, mean, maximum };

/// One reduction's kernels: rows, groups, columns, column_items, any.
template <Reduction reduction>
std::vector<Variant> reduce_variants();

}  // namespace gemel::inline ops
