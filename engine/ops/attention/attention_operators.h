// Attention. Legend: N samples, H heads, T queries, S keys, of E and V numbers each.
#pragma once
#include <optional>
#include <span>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel::inline ops {

/// Causal::no: queries see later keys too.
enum class Causal { no, yes };
/// Options of attention.
struct Attention {
  Value bias = {};                   // added to the scores: float32 [N, H, T, S], any extent of which may be 1; empty: none
  Causal causal = Causal::no;        // yes: query i sees keys 0..i + S - T, so that the last query sees all keys, as with a cache
  double dropout = 0;                // share of the weights that is zeroed; the others are scaled by 1 / (1 - dropout)
  std::optional<double> scale = {};  // of the scores; none: 1 / sqrt(E)
};
/// softmax(scale query key^T + bias) value for each head. It and its gradients take memory linear in T and S: score matrices are stored only for a gradient of
/// the bias and for second derivatives. A query that sees no key, or whose biases are all -infinity, gives zeros; biases that are equal and finite do not,
/// however low. Which weights drop out depends on sample, head, query and key alone.
/// @param query  [N, T, H, E]  @param key  [N, S, H, E]  @param value  [N, S, H, V], all of one floating-point type
/// @return [N, T, H, V]
/// Source: T. Dao et al., FlashAttention, 2022
Value attention(Value query, Value key, Value value, Attention how = {});

// ---- records
std::span<const OpDef* const> attention_operators();
const OpDef& attention_def();
const OpDef& attention_backward_def();
const OpDef& attention_dropout_def();

}  // namespace gemel::inline ops
