// Clips gradients by their common norm or by element, in operators, so that clipping is captured with the step.
#pragma once
#include <span>

#include "engine/core/value.h"

namespace gemel::optim {

struct Clipped {
  Values gradients;
  Value norm;  // float32 [], before clipping; empty if there are no gradients
};
/// Gradients in a slab.
struct SlabGradients {
  Value whole;  // float32 [n]
  Value pages;  // int32 [pages, 2], as for an update; pages without a row do not count and are not changed
};
/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the root of the sum of all squares. Gradients in slabs are scaled in place, by two
/// launches a slab. Repeated indices of a row gradient (engine/gradients/row_gradient.h) count by their sum. Empty gradients stay empty.
/// @param squares  float32 [n], whose sum is that of the squares of all gradients, if others have some of them; empty: computed from those given
/// @throws UsageError if max_norm is not above 0
Clipped clip_grad_norm(Values gradients, double max_norm, std::span<const SlabGradients> slabs = {}, const Value& squares = {});
/// Returns float32 [n], whose sum is that of the squares of all gradients; empty if there are none.
Value gradient_squares(const Values& gradients, std::span<const SlabGradients> slabs = {});
/// Clamps every element to [-limit, limit].
/// @throws UsageError if limit is not above 0
Values clip_grad_value(Values gradients, double limit);

}  // namespace gemel::optim
