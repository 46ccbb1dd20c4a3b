#include "engine/ops/pooling/pooling_operators.h"

#include <array>

namespace gemel::inline ops {

std::span<const OpDef* const> pooling_operators() {
  static const std::array records{
      // max
      &max_pool2d_def(),
      &max_pool2d_gradient_def(),
      &max_pool2d_pick_def(),
      // average
      &avg_pool2d_def(),
      &avg_pool2d_gradient_def(),
      &adaptive_avg_pool2d_def(),
      &adaptive_avg_pool2d_gradient_def(),
  };
  return records;
}

}  // namespace gemel::inline ops
