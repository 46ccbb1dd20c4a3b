#include "engine/ops/attention/attention_operators.h"

#include <array>

namespace gemel::inline ops {

std::span<const OpDef* const> attention_operators() {
  static const std::array records{
      &attention_def(),
      &attention_backward_def(),
      &attention_dropout_def(),
  };
  return records;
}

}  // namespace gemel::inline ops
