#include "engine/ops/catalog.h"

#include <array>

#include "engine/ops/ops.h"

namespace gemel {

std::span<const OpDef* const> catalog() {
  static const std::array defs{
      &full_def(),
      &copy_def(),
      &assign_def(),
      // shape
      &reshape_def(),
      &broadcast_to_def(),
      // binary
      &add_def(),
      &subtract_def(),
      &multiply_def(),
      // unary
      &negate_def(),
      &exp_def(),
      // reduce
      &sum_def(),
      // matmul
      &matmul_def(),
      // convolution
      &conv2d_def(),
      &conv2d_input_gradient_def(),
      &conv2d_weight_gradient_def(),
      // pooling
      // normalisation
      // softmax, loss
      &softmax_def(),
      // random
      // update
      // control
  };
  return defs;
}

const OpDef* find_op(std::string_view name) {
  for (const OpDef* def : catalog())
    if (def->name == name) return def;
  return nullptr;
}

}  // namespace gemel
