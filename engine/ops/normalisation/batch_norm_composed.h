// Batch normalisation in public operators. Legend: engine/ops/normalisation/batch_norm.cpp.
#pragma once
#include "engine/core/attributes.h"
#include "engine/core/value.h"

namespace gemel {

Values composed_batch_norm(const Values& inputs, const Attributes& attributes);
/// (x - mean) * scale + beta, with scale = gamma / sqrt(variance + eps) one number a channel: as elementwise operators they join what follows them, and
/// then the product before them.
Values composed_batch_norm_inference(const Values& inputs, const Attributes& attributes);
Values composed_batch_norm_backward(const Values& inputs, const Attributes& attributes);

/// y of batch_norm from its statistics.
Value batch_norm_again(const Values& inputs, const Values& outputs);

}  // namespace gemel
