#include "engine/ops/random/random_operators.h"

#include <array>

namespace gemel::inline ops {

std::span<const OpDef* const> random_operators() {
  static const std::array records{
      &dropout_def(),
      &random_uniform_def(),
      &random_normal_def(),
      &fold_in_def(),
  };
  return records;
}

}  // namespace gemel::inline ops
