// Shared by operators that draw: the random state, which is their last input, and the use of its bits (engine/base/philox.h).
#pragma once
#include <cstdint>

#include "engine/base/philox.h"
#include "engine/core/op.h"
#include "engine/reference/reference_interpreter.h"

namespace gemel::inline ops {

inline constexpr std::int64_t kStateNumbers = 4;  // seed, step, first sample, fold; places of samples may follow

/// @throws ShapeError if the spec is not that of a random state
void check_state(const char* op, const Spec& state);

/// Key of the numbers: no sample, consecutive samples from the first on, or the samples that the state lists.
enum class Keyed : std::int64_t { none, following, listed };
/// Returns how numbers that belong to samples are keyed.
inline Keyed keyed_by(const Spec& state) { return state.shape[0] > kStateNumbers ? Keyed::listed : Keyed::following; }

DrawState state_of(const HostCall& c, int state_input);
/// Returns the place of a sample of the batch in the epoch.
std::int64_t place_of(const HostCall& c, int state_input, Keyed keyed, std::int64_t sample);

/// @throws ShapeError if `rate` is not 0..1
void check_rate(const char* op, double rate);
/// Returns the threshold for 24 random bits below which an element is dropped. It is an integer, so that host and device drop the same elements.
std::int32_t dropout_threshold(double rate);
/// Returns the factor of elements that are kept.
double dropout_scale(double rate);

inline constexpr AttributeDef kStreamAttribute{"stream", Type::integer, "32 bits that name the draw within its step"};

}  // namespace gemel::inline ops
