// The list of all operators. Each record is defined in the source of its family.
#pragma once
#include <span>
#include <string_view>

#include "engine/core/op.h"

namespace gemel {

std::span<const OpDef* const> catalog();
/// Returns the record of that name, or nullptr.
const OpDef* find_op(std::string_view name);

// ---- the records
const OpDef& full_def();
const OpDef& copy_def();
const OpDef& assign_def();
const OpDef& write_rows_def();
// shape
const OpDef& reshape_def();
const OpDef& broadcast_to_def();
const OpDef& transpose_def();
const OpDef& concatenate_def();
const OpDef& split_def();
const OpDef& slice_def();
const OpDef& slice_gradient_def();
const OpDef& pad_def();
// index
const OpDef& gather_def();
const OpDef& gather_gradient_def();
const OpDef& scatter_add_def();
const OpDef& one_hot_def();
// binary, comparison
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
// unary, cast
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
// activation
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
// reduce
const OpDef& sum_def();
const OpDef& mean_def();
const OpDef& max_def();
const OpDef& argmax_def();
// matmul
const OpDef& matmul_def();
const OpDef& add_matmul_def();
// convolution
const OpDef& conv2d_def();
const OpDef& conv2d_input_gradient_def();
const OpDef& conv2d_weight_gradient_def();
const OpDef& add_conv2d_weight_gradient_def();
// pooling
const OpDef& max_pool2d_def();
const OpDef& max_pool2d_gradient_def();
const OpDef& max_pool2d_pick_def();
const OpDef& avg_pool2d_def();
const OpDef& avg_pool2d_gradient_def();
const OpDef& adaptive_avg_pool2d_def();
const OpDef& adaptive_avg_pool2d_gradient_def();
// normalisation
const OpDef& batch_norm_def();
const OpDef& batch_norm_inference_def();
const OpDef& channel_moments_def();
const OpDef& merge_moments_def();
const OpDef& batch_norm_backward_def();
const OpDef& layer_norm_def();
const OpDef& layer_norm_backward_def();
// softmax, loss
const OpDef& softmax_def();
const OpDef& log_softmax_def();
const OpDef& cross_entropy_def();
const OpDef& cross_entropy_backward_def();
const OpDef& ctc_loss_def();
const OpDef& ctc_loss_backward_def();
// attention
const OpDef& attention_def();
const OpDef& attention_backward_def();
const OpDef& attention_dropout_def();
// recurrent
const OpDef& lstm_def();
const OpDef& lstm_backward_def();
const OpDef& gru_def();
const OpDef& gru_backward_def();
// random
const OpDef& dropout_def();
const OpDef& random_uniform_def();
const OpDef& random_normal_def();
const OpDef& fold_in_def();
// update
const OpDef& sgd_update_def();
const OpDef& momentum_update_def();
const OpDef& adam_update_def();
const OpDef& rmsprop_update_def();
const OpDef& rmsprop_momentum_update_def();
// rows
const OpDef& sum_rows_def();
const OpDef& sgd_rows_update_def();
const OpDef& adam_rows_update_def();
// clip
const OpDef& page_squares_def();
const OpDef& clip_pages_def();
// control
const OpDef& conditional_def();
const OpDef& while_def();
const OpDef& scan_def();

}  // namespace gemel
