// Attention's scores and weights as whole matrices [N, H, T, S] in public operators: what its definition is written with, and the gradients that need
// no kernel. Legend: engine/ops/attention/attention.h.
#pragma once
#include "engine/core/attributes.h"
#include "engine/ops/attention/attention.h"
#include "engine/ops/ops.h"

namespace gemel {

/// [N, T, H, *] as [N, H, T, *] in float32, and back in the type that is given.
Value by_head(const Value& x);
Value by_query(const Value& x, DType dtype);

inline Value row_sums(const Value& x) { return sum(x, {3}, Keep::yes); }
inline Value turned_product(const Value& a, const Value& b) { return matmul(a, b, Transpose::yes); }
inline Value product_with_turned(const Value& a, const Value& b) { return matmul(a, b, Transpose::no, Transpose::yes); }

/// The matrices of one application, in float32.
class ScoreMatrices {
 public:
  /// @param inputs  query, key, value, bias, and the random state, if any
  ScoreMatrices(const Values& inputs, const Attributes& attributes);

  Value number(double x) const;
  /// A number a query [N, T, H] as a column [N, H, T, 1], and back.
  Value column(const Value& x) const;
  Value statistic(const Value& column) const;
  /// From the two numbers a query that attention keeps [N, T, H].
  Value weights(const Value& top, const Value& log_sum) const;
  /// What dropout leaves of a matrix.
  Value kept(Value x) const;
  /// 1 at each query's largest score, shared among equal ones, and 0 elsewhere.
  Value largest() const;

  const AttentionSizes sizes;
  const double scale;
  const Value q, k, v, scores;

 private:
  Value masked(Value x, bool causal) const;

  Value state_;
  double rate_;
  std::int64_t stream_;
};

// The records in public operators.
Values composed_attention(const Values& inputs, const Attributes& attributes);
Values composed_attention_backward(const Values& inputs, const Attributes& attributes);

}  // namespace gemel
