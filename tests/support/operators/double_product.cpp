#include "tests/support/operators/double_product.h"

#include <cmath>

namespace gemel::testing {

DotProduct dot_product(const float* a, std::int64_t a_step, const float* b, std::int64_t b_step, std::int64_t count) {
  DotProduct out;
  for (std::int64_t i = 0; i < count; ++i) {
    const double product = static_cast<double>(a[i * a_step]) * static_cast<double>(b[i * b_step]);
    out.sum += product;
    out.magnitude += std::abs(product);
  }
  return out;
}

}  // namespace gemel::testing
