// Operators that read and write where indices say.
#pragma once
#include <cstdint>
#include <span>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel::inline ops {

/// destination[..., start + k, ...] = source[..., k, ...] in place, for all k along an axis. The destination is taken without its history. Rows out of range
/// are an error that the host's next read throws.
/// @param start  int32 or int64, one element
void write_rows(const Value& destination, Value start, Value source, std::int64_t axis = 0);
/// y[..., i..., ...] = x[..., indices[i...], ...]: the axis is replaced by the axes of `indices` (int32 or int64).
Value gather(Value x, Value indices, std::int64_t axis = 0);
/// Gradient of gather: zeros of the indexed tensor's `shape`, with dy added where gather read. Deterministic.
/// @param into  memory for the result, or empty
Value gather_gradient(Value dy, Value indices, const Shape& shape, std::int64_t axis = 0, const Value& into = {});
/// Returns x with updates[..., i..., ...] added at x[..., indices[i...], ...], the transpose of gather. Deterministic.
Value scatter_add(Value x, Value indices, Value updates, std::int64_t axis = 0);
/// Appends an axis of extent `classes` with 1 at the index, 0 elsewhere.
Value one_hot(Value indices, std::int64_t classes, DType dtype = DType::float32);

// ---- records
std::span<const OpDef* const> index_operators();
const OpDef& write_rows_def();
const OpDef& gather_def();
const OpDef& gather_gradient_def();
const OpDef& scatter_add_def();
const OpDef& one_hot_def();

}  // namespace gemel::inline ops
