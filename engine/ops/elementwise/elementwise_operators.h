// Operators that compute element by element.
#pragma once
#include <span>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel::inline ops {

// ---- of two inputs of one element type, with broadcasting
Value add(Value a, Value b);
Value subtract(Value a, Value b);
Value multiply(Value a, Value b);
Value divide(Value a, Value b);
Value maximum(Value a, Value b);
Value minimum(Value a, Value b);
/// a to the power of b.
Value power(Value a, Value b);
/// Comparisons return bool.
Value equal(Value a, Value b);
Value not_equal(Value a, Value b);
Value less(Value a, Value b);
Value less_equal(Value a, Value b);
Value greater(Value a, Value b);
Value greater_equal(Value a, Value b);
Value logical_and(Value a, Value b);
Value logical_or(Value a, Value b);
/// Returns a where the condition (bool) holds, else b.
Value where(Value condition, Value a, Value b);

// ---- of one input
Value negate(Value x);
Value abs(Value x);
Value sign(Value x);
Value exp(Value x);
Value log(Value x);
Value sqrt(Value x);
Value rsqrt(Value x);
Value reciprocal(Value x);
Value square(Value x);
Value sin(Value x);
Value cos(Value x);
Value erf(Value x);
Value tanh(Value x);
Value sigmoid(Value x);
Value logical_not(Value x);
Value is_finite(Value x);
Value clamp(Value x, double low, double high);
/// Converts to another element type. Floating point to integer truncates; to bool is x != 0.
Value cast(Value x, DType dtype);
Value relu(Value x);
Value relu6(Value x);
Value silu(Value x);
Value hard_swish(Value x);
/// x Phi(x), computed exactly (with erf).
Value gelu(Value x);
/// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as in GPT-2.
/// Source: D. Hendrycks, K. Gimpel, Gaussian error linear units, 2016
Value gelu_tanh(Value x);
/// Gradients of activations: dy times the derivative.
/// @param y  output of relu and relu6  @param x  input of the others
Value relu_gradient(Value dy, Value y);
Value relu6_gradient(Value dy, Value y);
Value silu_gradient(Value dy, Value x);
Value hard_swish_gradient(Value dy, Value x);
Value gelu_gradient(Value dy, Value x);
Value gelu_tanh_gradient(Value dy, Value x);
Value clamp_gradient(Value dy, Value x, double low, double high);

// ---- records
std::span<const OpDef* const> elementwise_operators();
const OpDef& add_def();
const OpDef& subtract_def();
const OpDef& multiply_def();
const OpDef& divide_def();
const OpDef& maximum_def();
const OpDef& minimum_def();
const OpDef& power_def();
const OpDef& equal_def();
const OpDef& not_equal_def();
const OpDef& less_def();
const OpDef& less_equal_def();
const OpDef& greater_def();
const OpDef& greater_equal_def();
const OpDef& logical_and_def();
const OpDef& logical_or_def();
const OpDef& where_def();
const OpDef& negate_def();
const OpDef& abs_def();
const OpDef& sign_def();
const OpDef& exp_def();
const OpDef& log_def();
const OpDef& sqrt_def();
const OpDef& rsqrt_def();
const OpDef& reciprocal_def();
const OpDef& square_def();
const OpDef& sin_def();
const OpDef& cos_def();
const OpDef& erf_def();
const OpDef& tanh_def();
const OpDef& sigmoid_def();
const OpDef& cast_def();
const OpDef& is_nonzero_def();
const OpDef& is_finite_def();
const OpDef& logical_not_def();
const OpDef& relu_def();
const OpDef& relu_gradient_def();
const OpDef& relu6_def();
const OpDef& relu6_gradient_def();
const OpDef& silu_def();
const OpDef& silu_gradient_def();
const OpDef& hard_swish_def();
const OpDef& hard_swish_gradient_def();
const OpDef& gelu_def();
const OpDef& gelu_gradient_def();
const OpDef& gelu_tanh_def();
const OpDef& gelu_tanh_gradient_def();
const OpDef& clamp_def();
const OpDef& clamp_gradient_def();

}  // namespace gemel::inline ops
