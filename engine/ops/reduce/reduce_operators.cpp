#include "engine/ops/reduce/reduce_operators.h"

#include <array>

namespace gemel::inline ops {

std::span<const OpDef* const> reduce_operators() {
  static const std::array records{
      &sum_def(),
      &mean_def(),
      &max_def(),
      &argmax_def(),
  };
  return records;
}

}  // namespace gemel::inline ops
