#include "engine/ops/shape/shape_operators.h"

#include <array>

namespace gemel::inline ops {

std::span<const OpDef* const> shape_operators() {
  static const std::array records{
      // create
      &full_def(),
      &copy_def(),
      &assign_def(),
      // reshape
      &reshape_def(),
      &broadcast_to_def(),
      &transpose_def(),
      // concatenate
      &concatenate_def(),
      &split_def(),
      // slice
      &slice_def(),
      &slice_gradient_def(),
      &pad_def(),
  };
  return records;
}

}  // namespace gemel::inline ops
