#include "engine/ops/index/index_operators.h"

#include <array>

namespace gemel::inline ops {

std::span<const OpDef* const> index_operators() {
  static const std::array records{
      &write_rows_def(), &gather_def(), &gather_gradient_def(), &scatter_add_def(), &one_hot_def(),
  };
  return records;
}

}  // namespace gemel::inline ops
