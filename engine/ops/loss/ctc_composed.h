// ctc_loss composed of public operators, for its second derivatives.
#pragma once
#include <cstdint>

#include "engine/ops/ops.h"

namespace gemel::inline ops {

/// A composed loss above this means infinity: no alignment exists.
constexpr double kCtcImpossible = 1e29;

/// Computes the losses frame by frame, hence slowly for many frames; can be differentiated any number of times.
/// @return float32 [N]
Value composed_ctc_losses(const Value& log_probs, const Value& input_lengths, const CtcTargets& targets, std::int64_t blank);

}  // namespace gemel::inline ops
