#include "datasets/loading/padded_length.h"

namespace gemel::datasets {

std::int64_t rounded_length(std::int64_t length) {
  constexpr std::int64_t kShortest = 16;
  std::int64_t power = kShortest;
  while (2 * power < length) power *= 2;
  if (length <= power) return power;
  return length <= power + power / 2 ? power + power / 2 : 2 * power;
}

}  // namespace gemel::datasets
