#include "parallel/parameter_server/weighted_sum.h"

namespace gemel::parallel {

void add_weighted(std::span<float> to, std::span<const std::byte> from, float weight, Sum sum) {
  const float* const numbers = reinterpret_cast<const float*>(from.data());
  float* const out = to.data();
  const std::size_t n = to.size();
  if (sum == Sum::begins)
    for (std::size_t i = 0; i < n; ++i) out[i] = weight * numbers[i];
  else
    for (std::size_t i = 0; i < n; ++i) out[i] += weight * numbers[i];
}

}  // namespace gemel::parallel
