// Control flow that a graph can hold: a choice and a loop whose bodies are captured. They differentiate, as often as wanted.
// Bodies are pure: they write nothing from outside. What they use from outside they may use freely, gradients flow to it.
// A draw in a loop's body takes another random state at every trip.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel::inline ops {

/// One of two branches, both captured, one run. The host waits for the predicate.
/// @param predicate  bool []
/// @return what the branch returns; both return equal specs, one value at least
/// @throws ShapeError another predicate, or branches that differ  @throws UsageError a branch that writes values from outside
Values cond(Value predicate, const std::function<Values()>& then, const std::function<Values()>& otherwise);

/// carried = body(carried) while condition(carried), `max_trips` times at most. The host waits once a trip.
/// @param condition  gives one bool []  @param body  gives values of the specs it is given
/// @return carried after the last trip. Its gradient runs the loop again and keeps what is carried, max_trips rows of it.
/// @throws ShapeError another condition, or a body that changes specs  @throws UsageError as cond
Values while_loop(const std::function<Value(const Values&)>& condition, const std::function<Values(const Values&)>& body, Values carried,
                  std::int64_t max_trips);

// ---- records
std::span<const OpDef* const> control_operators();
const OpDef& conditional_def();
const OpDef& while_def();
const OpDef& scan_def();

}  // namespace gemel::inline ops
