// Losses that models are trained by.
#pragma once
#include "engine/core/value.h"
#include "engine/ops/ops.h"
#include "frontends/nn/module.h"

namespace gemel::nn {

/// Cross-entropy of the logits, a mean over the samples or their sum, and kAuxiliaryWeight times that of every further output that the module made in the same
/// forward pass (in training, where it has auxiliary classifiers).
/// @param logits  what the module gave, float32 [N, classes]  @param labels  int64 [N]
/// @param label_smoothing  share of the uniform distribution in the targets, 0..1, as PyTorch's CrossEntropyLoss mixes it in
/// @return        float32 []
Value classification_loss(Module& module, Value logits, const Value& labels, LossReduction reduction = LossReduction::mean, double label_smoothing = 0);

/// Binary cross-entropy of sigmoid(logits), a mean over all elements or their sum:
/// loss[i] = (1 - y[i]) x[i] + max(-x[i], 0) + log(1 + exp(-|x[i]|)), which no logit overflows.
/// @param logits  x, floating point, any shape  @param labels  y, of the same shape and type: the probability of 1
/// @return        []
Value binary_cross_entropy(Value logits, Value labels, LossReduction reduction = LossReduction::mean);

}  // namespace gemel::nn
