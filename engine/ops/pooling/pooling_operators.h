// Pooling of images [N, H, W, C].
#pragma once
#include <span>

#include "engine/core/op.h"
#include "engine/core/value.h"
#include "engine/ops/axes.h"

namespace gemel::inline ops {

struct Window {
  Pair kernel{2, 2}, stride{2, 2}, padding{0, 0}, dilation{1, 1};
  bool ceil_mode = false;     // include a last, partial window
  bool count_padding = true;  // averages divide by the full window
};
/// Pooling of x [N, H, W, C] over windows; returns [N, P, Q, C].
Value max_pool2d(Value x, const Window& window);
Value avg_pool2d(Value x, const Window& window);
/// Averages over windows that split H x W evenly into `extents`, by PyTorch's rule.
Value adaptive_avg_pool2d(Value x, const Pair& extents);

// ---- records
std::span<const OpDef* const> pooling_operators();
const OpDef& max_pool2d_def();
const OpDef& max_pool2d_gradient_def();
const OpDef& max_pool2d_pick_def();
const OpDef& avg_pool2d_def();
const OpDef& avg_pool2d_gradient_def();
const OpDef& adaptive_avg_pool2d_def();
const OpDef& adaptive_avg_pool2d_gradient_def();

}  // namespace gemel::inline ops
