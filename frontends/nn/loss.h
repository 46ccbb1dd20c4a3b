// Losses for training models.
#pragma once
#include "engine/core/value.h"
#include "engine/ops/ops.h"
#include "frontends/nn/module.h"

namespace gemel::nn {

/// Cross-entropy of the logits, as a mean over the samples or their sum, plus kAuxiliaryWeight times that of each auxiliary output that the module made in the
/// same forward pass (in training).
/// @param logits  output of the module, float32 [N, classes]  @param labels  int64 [N]
/// @param label_smoothing  share of the uniform distribution in the targets, 0..1, as in PyTorch's CrossEntropyLoss
/// @return        float32 []
Value classification_loss(Module& module, Value logits, const Value& labels, LossReduction reduction = LossReduction::mean, double label_smoothing = 0);

/// Binary cross-entropy of sigmoid(logits), as a mean over all elements or their sum:
/// loss[i] = (1 - y[i]) x[i] + max(-x[i], 0) + log(1 + exp(-|x[i]|)), which does not overflow.
/// @param logits  x, floating point, any shape  @param labels  y, probabilities of class 1, of the same shape and type
/// @return        []
Value binary_cross_entropy(Value logits, Value labels, LossReduction reduction = LossReduction::mean);

}  // namespace gemel::nn
