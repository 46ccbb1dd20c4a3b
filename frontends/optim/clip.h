// Clipping of gradients, by their common norm or element by element, in operators, so that it is captured with the step.
#pragma once
#include <span>

#include "engine/core/value.h"

namespace gemel::optim {

struct Clipped {
  Values gradients;
  Value norm;  // float32 [], before clipping; empty where there is no gradient
};
/// Gradients that lie in a slab.
struct SlabGradients {
  Value whole;  // float32 [n]
  Value pages;  // int32 [pages, 2], as an update reads it: those of no row do not count and stay
};
/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), norm = sqrt of the sum of all their squares: those in slabs in place, by two
/// launches a slab. Of gradients that are rows (engine/gradients/row_gradient.h), those of one index count by their sum. Empty gradients stay empty.
/// @param squares  float32 [n], whose sum is that of the squares of all gradients there are, where others have some of them; empty: of those given
/// @throws UsageError for a largest norm that is not above 0
Clipped clip_grad_norm(Values gradients, double max_norm, std::span<const SlabGradients> slabs = {}, const Value& squares = {});
/// Float32 [n], whose sum is that of the squares of all these; empty where there is no gradient.
Value gradient_squares(const Values& gradients, std::span<const SlabGradients> slabs = {});
/// Limits every element to [-limit, limit]. @throws UsageError for a limit that is not above 0
Values clip_grad_value(Values gradients, double limit);

}  // namespace gemel::optim
