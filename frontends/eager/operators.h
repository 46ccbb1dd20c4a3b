// The engine's operators as gemel::eager::NAME, for `using namespace gemel::eager` with or without `using namespace gemel`. They take Tensors and return
// Values, which convert to Tensors: `Tensor y = relu(x)`. Documentation: engine/ops/ops.h.
#pragma once
#include "engine/ops/ops.h"

namespace gemel::eager {

using gemel::abs, gemel::cast, gemel::clamp, gemel::cos, gemel::erf, gemel::exp, gemel::is_finite, gemel::log, gemel::negate, gemel::reciprocal;
using gemel::adaptive_avg_pool2d, gemel::avg_pool2d, gemel::max_pool2d;
using gemel::add, gemel::subtract, gemel::multiply, gemel::divide, gemel::maximum, gemel::minimum, gemel::power;
using gemel::argmax, gemel::max, gemel::mean, gemel::sum;
using gemel::attention, gemel::cross_entropy, gemel::ctc_loss, gemel::dropout, gemel::gru, gemel::log_softmax, gemel::lstm, gemel::softmax;
using gemel::batch_norm, gemel::batch_norm_inference, gemel::layer_norm;
using gemel::conv1d, gemel::conv2d, gemel::matmul;
using gemel::copy, gemel::reshape, gemel::broadcast_to, gemel::transpose, gemel::concatenate, gemel::split, gemel::slice, gemel::pad;
using gemel::embedding, gemel::gather, gemel::one_hot, gemel::scatter_add;
using gemel::equal, gemel::greater, gemel::greater_equal, gemel::less, gemel::less_equal, gemel::logical_and, gemel::logical_not, gemel::logical_or;
using gemel::gelu, gemel::gelu_tanh, gemel::hard_swish, gemel::relu, gemel::relu6, gemel::silu;
using gemel::not_equal, gemel::where;
using gemel::rsqrt, gemel::sigmoid, gemel::sign, gemel::sin, gemel::sqrt, gemel::square, gemel::tanh;

}  // namespace gemel::eager
