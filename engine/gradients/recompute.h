// Recomputation: functions of which only the inputs are kept for the backward pass, where they are computed again.
// Source: T. Chen et al., Training deep nets with sublinear memory cost, 2016.
#pragma once
#include <functional>

#include "engine/core/value.h"

namespace gemel {

/// What is computed twice. All that its outputs' gradients are wanted for are its inputs; all that it writes is its state.
using Recomputable = std::function<Values(const Values& inputs, const Values& state)>;

/// f(inputs, state), run without a history. The backward pass runs it again, with one: it draws the same numbers, and is given
/// a copy of the state as it was before the first run, so that the state moves once and the second run gives the same bits.
/// Where no gradient is wanted, and in the body of a conditional or a loop, which is computed again anyhow, this is f alone.
/// A gradient is summed within f first. Where an input is also used after f, that order may differ in the last bit from the one without.
/// @throws UsageError in the backward pass: an input that was changed in place since, or an f that uses another value with a history
Values recomputed(const Recomputable& f, const Values& inputs, const Values& state);

}  // namespace gemel
