// Attention. Legend: N samples, H heads, T queries, S keys, of E and V numbers each.
#pragma once
#include <optional>
#include <span>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel::inline ops {

/// Whether queries see later keys too.
enum class Causal { no, yes };
/// How attention weighs values, besides by queries and keys.
struct Attention {
  Value bias = {};                   // added to the scores: float32 [N, H, T, S], any extent of which may be 1; empty: none
  Causal causal = Causal::no;        // yes: query i sees keys 0..i + S - T alone, the last query all of them, as with cached keys
  double dropout = 0;                // share of the weights that is zeroed; the others are scaled by 1 / (1 - dropout)
  std::optional<double> scale = {};  // of the scores; none: 1 / sqrt(E)
};
/// softmax(scale query key^T + bias) value, head by head, also its gradients in memory linear in T and S: no matrix of scores is stored, but for a
/// gradient of the bias and for second derivatives. A query that sees no key, or whose bias is -infinity for all, gives zeros; with equal
/// biases, however low, it weighs all keys that it sees. Weights that drop out depend on sample, head, query and key alone.
/// @param query [N, T, H, E] @param key [N, S, H, E] @param value [N, S, H, V], floating, of one type @return [N, T, H, V]
/// Source: T. Dao et al., FlashAttention, 2022
Value attention(Value query, Value key, Value value, Attention how = {});

// ---- records
std::span<const OpDef* const> attention_operators();
const OpDef& attention_def();
const OpDef& attention_backward_def();
const OpDef& attention_dropout_def();

}  // namespace gemel::inline ops
