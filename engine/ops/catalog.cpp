#include "engine/ops/catalog.h"

#include <array>

namespace gemel {

std::span<const OpDef* const> catalog() {
  static const std::array defs{
      &full_def(),
      &copy_def(),
      &assign_def(),
      &write_rows_def(),
      // shape
      &reshape_def(),
      &broadcast_to_def(),
      &transpose_def(),
      &concatenate_def(),
      &split_def(),
      &slice_def(),
      &slice_gradient_def(),
      &pad_def(),
      // index
      &gather_def(),
      &gather_gradient_def(),
      &scatter_add_def(),
      &one_hot_def(),
      // binary, comparison
      &add_def(),
      &subtract_def(),
      &multiply_def(),
      &divide_def(),
      &maximum_def(),
      &minimum_def(),
      &power_def(),
      &equal_def(),
      &not_equal_def(),
      &less_def(),
      &less_equal_def(),
      &greater_def(),
      &greater_equal_def(),
      &logical_and_def(),
      &logical_or_def(),
      &where_def(),
      // unary, cast
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
      // reduce
      &sum_def(),
      &mean_def(),
      &max_def(),
      &argmax_def(),
      // matmul
      &matmul_def(),
      &add_matmul_def(),
      // convolution
      &conv2d_def(),
      &conv2d_input_gradient_def(),
      &conv2d_weight_gradient_def(),
      &add_conv2d_weight_gradient_def(),
      // pooling
      &max_pool2d_def(),
      &max_pool2d_gradient_def(),
      &max_pool2d_pick_def(),
      &avg_pool2d_def(),
      &avg_pool2d_gradient_def(),
      &adaptive_avg_pool2d_def(),
      &adaptive_avg_pool2d_gradient_def(),
      // normalisation
      &batch_norm_def(),
      &batch_norm_inference_def(),
      &batch_norm_backward_def(),
      &channel_moments_def(),
      &merge_moments_def(),
      &layer_norm_def(),
      &layer_norm_backward_def(),
      // softmax, loss
      &softmax_def(),
      &log_softmax_def(),
      &cross_entropy_def(),
      &cross_entropy_backward_def(),
      &ctc_loss_def(),
      &ctc_loss_backward_def(),
      // attention
      &attention_def(),
      &attention_backward_def(),
      &attention_dropout_def(),
      // recurrent
      &lstm_def(),
      &lstm_backward_def(),
      &gru_def(),
      &gru_backward_def(),
      // random
      &dropout_def(),
      &random_uniform_def(),
      &random_normal_def(),
      &fold_in_def(),
      // update
      &sgd_update_def(),
      &momentum_update_def(),
      &adam_update_def(),
      &rmsprop_update_def(),
      &rmsprop_momentum_update_def(),
      // rows
      &sum_rows_def(),
      &sgd_rows_update_def(),
      &adam_rows_update_def(),
      // clip
      &page_squares_def(),
      &clip_pages_def(),
      // control
      &conditional_def(),
      &while_def(),
      &scan_def(),
  };
  return defs;
}

const OpDef* find_op(std::string_view name) {
  for (const OpDef* def : catalog())
    if (def->name == name) return def;
  return nullptr;
}

}  // namespace gemel
