#include "engine/ops/convolution/convolution_operators.h"

#include <array>

namespace gemel::inline ops {

std::span<const OpDef* const> convolution_operators() {
  static const std::array records{
      &conv2d_def(),
      &conv2d_input_gradient_def(),
      &conv2d_weight_gradient_def(),
      &add_conv2d_weight_gradient_def(),
  };
  return records;
}

}  // namespace gemel::inline ops
