// The record that tells an observer that a gradient is complete: at once in eager, at every replay of a captured pass.
#pragma once
#include <cstddef>
#include <memory>

#include "engine/core/op.h"
#include "engine/gradients/autograd.h"

namespace gemel {

/// Whom a backward pass tells of its gradients.
struct GradientObserver : State {
  explicit GradientObserver(GradientReady told) : ready(std::move(told)) {}
  GradientReady ready;
};

/// In no catalog: a State stays in its process.
const OpDef& gradient_complete_def();

/// Tells the observer when what computes the gradient is enqueued. Counts as a write to it, so nothing reads it before.
void gradient_complete(const Value& gradient, std::shared_ptr<GradientObserver> observer, std::size_t index);

}  // namespace gemel
