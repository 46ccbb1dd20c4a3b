#include "frontends/nn/loss.h"

#include <utility>

#include "engine/ops/ops.h"

namespace gemel::nn {

Value classification_loss(Module& module, Value logits, const Value& labels) {
  Value loss = cross_entropy(std::move(logits), labels);
  for (Value& further : module.take_auxiliary())
    loss = std::move(loss) + Module::kAuxiliaryWeight * cross_entropy(std::move(further), labels);
  return loss;
}

}  // namespace gemel::nn
