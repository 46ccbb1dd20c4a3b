// Shared by reductions over axes: how axes are folded, how long series are cut, and the variants.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/ops/common.h"

namespace gemel::inline ops {

/// A shape as [outer, reduced, inner], if one run of neighbouring axes is reduced; axes of extent 1 fit anywhere.
struct Runs {
  std::int64_t outer = 1, reduced = 1, inner = 1;
  bool possible = true;
};
Runs runs_of(const Shape& shape, const std::vector<std::int64_t>& axes);

/// Returns the reduced axes of a problem with an attribute `axes`, normalised.
std::vector<std::int64_t> reduced_axes(const Problem& p);
/// Returns the number of input elements of each output element.
std::int64_t reduced_count(const Shape& shape, const std::vector<std::int64_t>& axes);

enum class Reduction { sum, mean, maximum };

/// Returns the variants of a reduction: rows, groups, columns, tiles, column_items, any.
template <Reduction reduction>
std::vector<Variant> reduce_variants();

}  // namespace gemel::inline ops
