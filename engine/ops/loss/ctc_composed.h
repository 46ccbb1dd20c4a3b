// The losses of ctc_loss in public operators alone: what its second derivative is made of.
#pragma once
#include <cstdint>

#include "engine/ops/ops.h"

namespace gemel::inline ops {

/// Above this a composed loss stands for infinity: there is no alignment.
constexpr double kCtcImpossible = 1e29;

/// Frame by frame, so slow for many frames; differentiable as often as wanted. @return float32 [N]
Value composed_ctc_losses(const Value& log_probs, const Value& input_lengths, const CtcTargets& targets, std::int64_t blank);

}  // namespace gemel::inline ops
