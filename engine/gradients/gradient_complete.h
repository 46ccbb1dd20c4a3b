// gradient_complete: an operator that tells an observer that a gradient is complete; at once in eager, at every replay of a captured pass.
#pragma once
#include <cstddef>
#include <memory>

#include "engine/core/op.h"
#include "engine/gradients/autograd.h"

namespace gemel {

/// Observer of the gradients of a backward pass.
struct GradientObserver : State {
  explicit GradientObserver(GradientReady told) : ready(std::move(told)) {}
  GradientReady ready;
};

/// Record of the operator. It is not in the catalog, because its State cannot be saved.
const OpDef& gradient_complete_def();

/// Calls the observer when the computation of the gradient is enqueued. Counts as a write to the gradient, so that no later read moves before it.
void gradient_complete(const Value& gradient, std::shared_ptr<GradientObserver> observer, std::size_t index);

}  // namespace gemel
