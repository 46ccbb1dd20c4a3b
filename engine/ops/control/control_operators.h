// Control flow that graphs can capture: a branch and a loop. Both can be differentiated any number of times. The bodies are captured. They must not write
// values from outside, but may read them, and gradients flow to those. Draws in a loop's body have another random state in every trip.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel::inline ops {

/// Captures both branches and runs one of them. The host waits for the predicate.
/// @param predicate  bool []
/// @return the values of the branch; both branches return the same specs, one value at least
/// @throws ShapeError for a predicate that is not bool [], or branches that differ  @throws UsageError for a branch that writes values from outside
Values cond(Value predicate, const std::function<Values()>& then, const std::function<Values()>& otherwise);

/// Repeats carried = body(carried) while condition(carried), at most `max_trips` times. The host waits once a trip.
/// @param condition  returns a bool []  @param body  returns values of the specs that it takes
/// @return carried after the last trip. Its gradient runs the loop again and keeps the carried values of all trips, max_trips rows of each.
/// @throws ShapeError for a condition that is not bool [], or a body that changes specs  @throws UsageError as cond
Values while_loop(const std::function<Value(const Values&)>& condition, const std::function<Values(const Values&)>& body, Values carried,
                  std::int64_t max_trips);

// ---- records
std::span<const OpDef* const> control_operators();
const OpDef& conditional_def();
const OpDef& while_def();
const OpDef& scan_def();

}  // namespace gemel::inline ops
