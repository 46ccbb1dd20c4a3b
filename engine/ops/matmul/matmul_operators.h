// Products of matrices.
#pragma once
#include <span>

#include "engine/base/transpose.h"
#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel::inline ops {

/// op(a) op(b). @param a [..., M, K] @param b [..., K, N] (before transposing) @return [..., M, N]; leading axes are equal,
/// or one side has none and serves them all
Value matmul(Value a, Value b, Transpose transpose_a = Transpose::no, Transpose transpose_b = Transpose::no, const Value& into = {});
/// sum += op(a) op(b), in its memory; float32. @param sum  shaped as the product  @return it, as it is then
Value add_matmul(const Value& sum, Value a, Value b, Transpose transpose_a = Transpose::no, Transpose transpose_b = Transpose::no);

// ---- records
std::span<const OpDef* const> matmul_operators();
const OpDef& matmul_def();
const OpDef& add_matmul_def();

}  // namespace gemel::inline ops
