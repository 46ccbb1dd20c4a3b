// Multi-head attention. Legend: N samples, T queries, S keys, H heads, D width of all heads.
#pragma once
#include <cstdint>

#include "engine/core/value.h"
#include "engine/ops/ops.h"

namespace gemel::nn {

struct AttentionInputs {
  Value query;      // [N, T, D]
  Value key;        // [N, S, D]
  Value value;      // [N, S, D]
  Value bias = {};  // added to the scores: float32 [N, H, T, S], extents of 1 are broadcast; empty: none
};

/// softmax(query key^T / sqrt(D / H) + bias) value for each head, without storing scores (gemel::attention).
/// @param dropout  share of the weights that is zeroed  @param causal  yes: query i sees keys 0..i + S - T alone  @return [N, T, D]
/// @throws ShapeError if heads do not divide the width
/// Source: A. Vaswani et al., Attention is all you need, 2017
Value attention(AttentionInputs in, std::int64_t heads, double dropout = 0, Causal causal = Causal::no);

/// Returns a bias that masks padding: 0 for other ids, a large negative number for padding.
/// @param ids  int64 [N, S]  @return float32 [N, 1, 1, S]
Value padding_bias(const Value& ids, std::int64_t padding);
/// Returns the positions 0, 1, ..., n - 1: int64 [n].
Value places(Session& session, std::int64_t n);
/// Returns a bias that masks keys after each query's position, filled or not: 0 if key j <= position, else a large negative number.
/// @param query_places  int64 [T]  @return float32 [1, 1, T, keys]
Value causal_bias(const Value& query_places, std::int64_t keys);

}  // namespace gemel::nn
