#include "engine/ops/loss/loss_operators.h"

#include <array>

namespace gemel::inline ops {

std::span<const OpDef* const> loss_operators() {
  static const std::array records{
      &cross_entropy_def(),
      &cross_entropy_backward_def(),
      &ctc_loss_def(),
      &ctc_loss_backward_def(),
  };
  return records;
}

}  // namespace gemel::inline ops
