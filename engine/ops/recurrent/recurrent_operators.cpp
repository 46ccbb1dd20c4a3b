#include "engine/ops/recurrent/recurrent_operators.h"

#include <array>

namespace gemel::inline ops {

std::span<const OpDef* const> recurrent_operators() {
  static const std::array records{
      &lstm_def(),
      &lstm_backward_def(),
      &gru_def(),
      &gru_backward_def(),
  };
  return records;
}

}  // namespace gemel::inline ops
