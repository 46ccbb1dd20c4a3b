#include "engine/ops/matmul/matmul_operators.h"

#include <array>

namespace gemel::inline ops {

std::span<const OpDef* const> matmul_operators() {
  static const std::array records{
      &matmul_def(),
      &add_matmul_def(),
  };
  return records;
}

}  // namespace gemel::inline ops
