#include "engine/ops/normalisation/normalisation_operators.h"

#include <array>

namespace gemel::inline ops {

std::span<const OpDef* const> normalisation_operators() {
  static const std::array records{
      // batch
      &batch_norm_def(),
      &batch_norm_inference_def(),
      &batch_norm_backward_def(),
      // moments
      &channel_moments_def(),
      &merge_moments_def(),
      // layer
      &layer_norm_def(),
      &layer_norm_backward_def(),
      // softmax
      &softmax_def(),
      &log_softmax_def(),
  };
  return records;
}

}  // namespace gemel::inline ops
