#include "frontends/nn/loss.h"

#include <fmt/format.h>

#include <utility>

#include "engine/base/error.h"
#include "engine/ops/ops.h"

namespace gemel::nn {

Value classification_loss(Module& module, Value logits, const Value& labels, LossReduction reduction, double label_smoothing) {
  const auto judged = [&](Value given) { return cross_entropy(std::move(given), labels, label_smoothing, reduction); };
  Value loss = judged(std::move(logits));
  for (Value& further : module.take_auxiliary()) loss = std::move(loss) + Module::kAuxiliaryWeight * judged(std::move(further));
  return loss;
}

Value binary_cross_entropy(Value logits, Value labels, LossReduction reduction) {
  if (labels.spec() != logits.spec())
    throw ShapeError(fmt::format("binary_cross_entropy: logits are {} and labels {}; accepted: labels of the logits' shape and type", to_string(logits.spec()),
                                 to_string(labels.spec())));
  Value rest = log(exp(-abs(logits)) + 1);
  Value below = maximum(-logits, full(logits.session(), {Shape{}, logits.dtype()}, 0));  // at 0 it and |x| share the gradient: -1/2 and 0
  Value losses = (1 - std::move(labels)) * std::move(logits) + std::move(below) + std::move(rest);
  return reduction == LossReduction::sum ? sum(std::move(losses)) : mean(std::move(losses));
}

}  // namespace gemel::nn
