// The loss that a classifier is trained by.
#pragma once
#include "engine/value.h"
#include "frontends/nn/module.h"

namespace gemel::nn {

/// Mean cross-entropy of the logits, and kAuxiliaryWeight times that of every further output that the module made in the same
/// forward pass (in training, where it has auxiliary classifiers).
/// @param logits  what the module gave, float32 [N, classes]  @param labels  int64 [N]
/// @return        float32 []
Value classification_loss(Module& module, Value logits, const Value& labels);

}  // namespace gemel::nn
