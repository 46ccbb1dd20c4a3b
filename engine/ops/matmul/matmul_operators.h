// Products of matrices.
#pragma once
#include <span>

#include "engine/base/transpose.h"
#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel::inline ops {

/// Returns op(a) op(b), op being the transpose if asked for.
/// @param a  op(a) is [..., M, K]  @param b  op(b) is [..., K, N]
/// @return [..., M, N]; leading axes are equal, or one side has none and is used with all of the other's
Value matmul(Value a, Value b, Transpose transpose_a = Transpose::no, Transpose transpose_b = Transpose::no, const Value& into = {});
/// Computes sum += op(a) op(b) in the memory of the sum; float32.
/// @param sum  of the product's shape  @return the sum after the addition
Value add_matmul(const Value& sum, Value a, Value b, Transpose transpose_a = Transpose::no, Transpose transpose_b = Transpose::no);

// ---- records
std::span<const OpDef* const> matmul_operators();
const OpDef& matmul_def();
const OpDef& add_matmul_def();

}  // namespace gemel::inline ops
