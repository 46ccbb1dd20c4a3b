// A matrix product in double, and how far one in float may be from it: built optimised, for large ones.
#pragma once
#include <cstdint>

namespace gemel::testing {

/// One row of A by one column of B: elements `a_step` and `b_step` apart.
struct DotProduct {
  double sum = 0, magnitude = 0;  // of the products; of their absolute values
};
DotProduct dot_product(const float* a, std::int64_t a_step, const float* b, std::int64_t b_step, std::int64_t count);

}  // namespace gemel::testing
