// What operators that draw have in common: the random state, their last input, and what becomes of its bits (engine/base/philox.h).
#pragma once
#include <cstdint>

#include "engine/base/philox.h"
#include "engine/core/op.h"
#include "engine/reference/reference_interpreter.h"

namespace gemel::inline ops {

inline constexpr std::int64_t kStateNumbers = 4;  // seed, step, first sample, fold; the places of samples may follow

/// @throws ShapeError for what is not a random state
void check_state(const char* op, const Spec& state);

/// Whose numbers they are: nobody's, of samples that follow the first one, or of those that the state lists.
enum class Keyed : std::int64_t { none, following, listed };
/// Of numbers that belong to samples.
inline Keyed keyed_by(const Spec& state) { return state.shape[0] > kStateNumbers ? Keyed::listed : Keyed::following; }

DrawState state_of(const HostCall& c, int state_input);
/// Where a sample of the batch lies in the epoch.
std::int64_t place_of(const HostCall& c, int state_input, Keyed keyed, std::int64_t sample);

/// @throws ShapeError for a share `rate` that is not 0..1
void check_rate(const char* op, double rate);
/// Of 24 random bits: below it a share `rate` is dropped. The same integer on host and device, so that both drop the same elements.
std::int32_t dropout_threshold(double rate);
/// What is kept is multiplied by it.
double dropout_scale(double rate);

inline constexpr AttributeDef kStreamAttribute{"stream", Type::integer, "32 bits that name the draw within its step"};

}  // namespace gemel::inline ops
