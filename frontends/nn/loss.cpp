#include "frontends/nn/loss.h"

#include <utility>

#include "engine/ops/ops.h"

namespace gemel::nn {

Value classification_loss(Module& module, Value logits, const Value& labels, LossReduction reduction) {
  Value loss = cross_entropy(std::move(logits), labels, 0, reduction);
  for (Value& further : module.take_auxiliary())
    loss = std::move(loss) + Module::kAuxiliaryWeight * cross_entropy(std::move(further), labels, 0, reduction);
  return loss;
}

}  // namespace gemel::nn
