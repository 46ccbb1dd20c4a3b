// Operators that reduce along axes.
#pragma once
#include <cstdint>
#include <span>

#include "engine/core/op.h"
#include "engine/core/value.h"
#include "engine/ops/axes.h"

namespace gemel::inline ops {

enum class Keep { no, yes };
/// Over axes (all where none are given).
Value sum(Value x, const Axes& axes = {}, Keep keep = Keep::no);
Value mean(Value x, const Axes& axes = {}, Keep keep = Keep::no);
/// Its gradient is shared equally among equal maxima.
Value max(Value x, const Axes& axes = {}, Keep keep = Keep::no);
/// int64 index of the first maximum along an axis, which is dropped.
Value argmax(Value x, std::int64_t axis);
/// Undoes a broadcast: sums x over the axes along which `shape` was repeated.
Value sum_to(Value x, const Shape& shape, const Value& into = {});

// ---- records
std::span<const OpDef* const> reduce_operators();
const OpDef& sum_def();
const OpDef& mean_def();
const OpDef& max_def();
const OpDef& argmax_def();

}  // namespace gemel::inline ops
