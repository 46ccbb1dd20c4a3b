// Operators that reduce along axes.
#pragma once
#include <cstdint>
#include <span>

#include "engine/core/op.h"
#include "engine/core/value.h"
#include "engine/ops/axes.h"

namespace gemel::inline ops {

enum class Keep { no, yes };
/// Reduce over axes, or over all axes if none are given. Keep::yes keeps them with extent 1.
Value sum(Value x, const Axes& axes = {}, Keep keep = Keep::no);
Value mean(Value x, const Axes& axes = {}, Keep keep = Keep::no);
/// Maximum; its gradient is divided equally among equal maxima.
Value max(Value x, const Axes& axes = {}, Keep keep = Keep::no);
/// Returns the int64 index of the first maximum along an axis, which is removed.
Value argmax(Value x, std::int64_t axis);
/// Sums x over the axes along which `shape` was broadcast, to that shape.
/// @param into  memory for the result, or empty
Value sum_to(Value x, const Shape& shape, const Value& into = {});

// ---- records
std::span<const OpDef* const> reduce_operators();
const OpDef& sum_def();
const OpDef& mean_def();
const OpDef& max_def();
const OpDef& argmax_def();

}  // namespace gemel::inline ops
