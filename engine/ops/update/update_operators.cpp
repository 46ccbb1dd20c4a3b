#include "engine/ops/update/update_operators.h"

#include <array>

namespace gemel::inline ops {

std::span<const OpDef* const> update_operators() {
  static const std::array records{
      // optimizers
      &sgd_update_def(),
      &momentum_update_def(),
      &adam_update_def(),
      &rmsprop_update_def(),
      &rmsprop_momentum_update_def(),
      // sparse rows
      &sum_rows_def(),
      &sgd_rows_update_def(),
      &adam_rows_update_def(),
      // clip
      &page_squares_def(),
      &clip_pages_def(),
  };
  return records;
}

}  // namespace gemel::inline ops
