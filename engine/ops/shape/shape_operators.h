// Operators that make tensors, move elements or give them another shape.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "engine/core/op.h"
#include "engine/core/value.h"
#include "engine/ops/axes.h"

namespace gemel {

/// Makes a tensor whose elements all have one value.
Value full(Session& session, const Spec& spec, double value);

}  // namespace gemel

namespace gemel::inline ops {

/// Copies x to new memory.
Value copy(Value x);
/// destination = source, in place. Shapes and element types are equal. The destination is taken without its history.
void assign(const Value& destination, Value source);
/// Returns the same elements in the same order under another shape, in the same memory. One extent may be -1.
Value reshape(Value x, const std::vector<std::int64_t>& shape);
Value reshape(Value x, const Shape& shape);
inline Value reshape(Value x, std::initializer_list<std::int64_t> shape) { return reshape(std::move(x), std::vector<std::int64_t>(shape)); }
/// Repeats x along axes of extent 1, and along new leading axes.
Value broadcast_to(Value x, const Shape& shape);
/// Permutes axes: axis i of the result is axis order[i] of x.
Value transpose(Value x, const Axes& order);
/// Concatenates along an axis; all other extents are equal.
Value concatenate(Values xs, std::int64_t axis);
/// Splits along an axis into parts of these extents, which add up to the axis' extent.
Values split(Value x, const std::vector<std::int64_t>& extents, std::int64_t axis);
/// Returns elements starts[k], starts[k] + steps[k], ... below stops[k] of each axis. Negative starts and stops count from the end.
Value slice(Value x, const Axes& starts, const Axes& stops, const Axes& steps = {});
/// Gradient of slice: zeros of the sliced tensor's `shape`, with dy where slice read.
/// @param starts  0 or more
Value slice_gradient(Value dy, const Shape& shape, const Axes& starts, const Axes& steps);
/// Adds `before` and `after` elements of `value` around x, for each axis.
Value pad(Value x, const Axes& before, const Axes& after, double value = 0);

// ---- records
std::span<const OpDef* const> shape_operators();
const OpDef& full_def();
const OpDef& copy_def();
const OpDef& assign_def();
const OpDef& reshape_def();
const OpDef& broadcast_to_def();
const OpDef& transpose_def();
const OpDef& concatenate_def();
const OpDef& split_def();
const OpDef& slice_def();
const OpDef& slice_gradient_def();
const OpDef& pad_def();

}  // namespace gemel::inline ops
