// Convolutions. Legend: images [N, H, W, C]; weights [R, S, C / groups, K]; results [N, P, Q, K].
#pragma once
#include <cstdint>
#include <span>

#include "engine/core/op.h"
#include "engine/core/value.h"
#include "engine/ops/axes.h"

namespace gemel::inline ops {

struct Convolution {
  Pair stride{1, 1}, padding{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;
};
/// Two-dimensional cross-correlation.
/// @param x  [N, H, W, C]  @param w  [R, S, C / groups, K]  @return [N, P, Q, K]
Value conv2d(Value x, Value w, const Convolution& c = {});
/// Gradient of conv2d for its input, of shape `x_shape`.
Value conv2d_input_gradient(Value dy, Value w, const Shape& x_shape, const Convolution& c = {});
/// Gradient of conv2d for its weights, of shape `w_shape`.
/// @param into  memory for the result, or empty
Value conv2d_weight_gradient(Value dy, Value x, const Shape& w_shape, const Convolution& c = {}, const Value& into = {});
/// Adds the gradient of conv2d for its weights to `sum`, in its memory.
/// @param sum  of the weights' shape  @return the sum after the addition
Value add_conv2d_weight_gradient(const Value& sum, Value dy, Value x, const Convolution& c = {});

// ---- records
std::span<const OpDef* const> convolution_operators();
const OpDef& conv2d_def();
const OpDef& conv2d_input_gradient_def();
const OpDef& conv2d_weight_gradient_def();
const OpDef& add_conv2d_weight_gradient_def();

}  // namespace gemel::inline ops
