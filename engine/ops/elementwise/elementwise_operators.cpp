#include "engine/ops/elementwise/elementwise_operators.h"

#include <array>

namespace gemel::inline ops {

std::span<const OpDef* const> elementwise_operators() {
  static const std::array records{
      // binary
      &add_def(),
      &subtract_def(),
      &multiply_def(),
      &divide_def(),
      &maximum_def(),
      &minimum_def(),
      &power_def(),
      // comparison
      &equal_def(),
      &not_equal_def(),
      &less_def(),
      &less_equal_def(),
      &greater_def(),
      &greater_equal_def(),
      &logical_and_def(),
      &logical_or_def(),
      &where_def(),
      // unary
      &negate_def(),
      &abs_def(),
      &sign_def(),
      &exp_def(),
      &log_def(),
      &sqrt_def(),
      &rsqrt_def(),
      &reciprocal_def(),
      &square_def(),
      &sin_def(),
      &cos_def(),
      &erf_def(),
      &tanh_def(),
      &sigmoid_def(),
      // cast
      &cast_def(),
      &is_nonzero_def(),
      &is_finite_def(),
      &logical_not_def(),
      // activation
      &relu_def(),
      &relu_gradient_def(),
      &relu6_def(),
      &relu6_gradient_def(),
      &silu_def(),
      &silu_gradient_def(),
      &hard_swish_def(),
      &hard_swish_gradient_def(),
      &gelu_def(),
      &gelu_gradient_def(),
      &gelu_tanh_def(),
      &gelu_tanh_gradient_def(),
      &clamp_def(),
      &clamp_gradient_def(),
  };
  return records;
}

}  // namespace gemel::inline ops
