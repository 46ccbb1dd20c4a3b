// Random numbers, drawn from the session's random state: the same bits in every interpreter.
// Numbers are keyed by the place of their sample in the epoch, so that shards and micro-batches draw what the whole batch does.
// @param sample_axis  axis of the samples; kNoSampleAxis if the numbers belong to no sample
#pragma once
#include <span>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel::inline ops {

constexpr int kNoSampleAxis = -1;
/// Zeroes a share `rate` of x and scales the rest by 1 / (1 - rate).
Value dropout(Value x, double rate, int sample_axis = 0);
Value random_uniform(Session& session, const Shape& shape, double low = 0, double high = 1, int sample_axis = 0);
Value random_normal(Session& session, const Shape& shape, double mean = 0, double deviation = 1, int sample_axis = 0);
/// Returns the random state of trip `count` (int64 []) of a loop.
Value fold_in(Value state, Value count);

// ---- records
std::span<const OpDef* const> random_operators();
const OpDef& dropout_def();
const OpDef& random_uniform_def();
const OpDef& random_normal_def();
const OpDef& fold_in_def();

}  // namespace gemel::inline ops
