// Recomputation (activation checkpointing): only the inputs of a function are kept, and the backward pass computes the function again.
// Source: T. Chen et al., Training deep nets with sublinear memory cost, 2016.
#pragma once
#include <functional>

#include "engine/core/value.h"

namespace gemel {

/// A function that is computed twice. Gradients flow to `inputs` only; everything that it writes is in `state`.
using Recomputable = std::function<Values(const Values& inputs, const Values& state)>;

/// Computes f(inputs, state) without recording. The backward pass runs f again and records it, with the same random numbers and with a copy of
/// the state from before the first run: the state changes once, and the second run gives the same bits.
/// Calls f alone if no gradient is wanted, and in the body of a conditional or loop, which is computed again in any case.
/// Gradients are summed within f first. If an input is also used after f, this order may change the last bit.
/// @throws UsageError without inputs; in the backward pass if an input was changed in place since, or f uses another value that wants a gradient
Values recomputed(const Recomputable& f, const Values& inputs, const Values& state);

}  // namespace gemel
