// The loss that a classifier is trained by.
#pragma once
#include "engine/ops/ops.h"
#include "engine/value.h"
#include "frontends/nn/module.h"

namespace gemel::nn {

/// Cross-entropy of the logits, a mean over the samples or their sum, and kAuxiliaryWeight times that of every further output that the module made in the same
/// forward pass (in training, where it has auxiliary classifiers).
/// @param logits  what the module gave, float32 [N, classes]  @param labels  int64 [N]
/// @return        float32 []
Value classification_loss(Module& module, Value logits, const Value& labels, LossReduction reduction = LossReduction::mean);

}  // namespace gemel::nn
