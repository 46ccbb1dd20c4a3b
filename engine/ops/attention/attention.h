// Shared by the records of attention. The formulas are in opencl/kernels/lib/ops/attention.clh and opencl/kernels/cpu/attention/tiles_backward.cl.
// Legend: N samples, T queries, S keys, H heads; E elements of a query and of a key, V elements of a value. Tensors are [N, T, H, *], full score matrices [N,
// H, T, S].
#pragma once
#include <span>
#include <vector>

#include "engine/ops/common.h"
#include "engine/ops/random/draws.h"

namespace gemel::inline ops {

struct AttentionSizes {
  std::int64_t samples, queries, keys, heads, head, value;  // N, T, S, H, E, V
  Shape statistic() const { return {samples, queries, heads}; }
  Shape scores() const { return {samples, heads, queries, keys}; }
  /// Number of pairs of a query and a key that it sees, over all samples and heads.
  std::int64_t pairs(bool causal) const;
  /// Number of keys that query i sees.
  std::int64_t seen_by(std::int64_t i, bool causal) const;
};
AttentionSizes attention_sizes(const Shape& query, const Shape& value);

/// Positions of the inputs that the forward and the backward record share: query, followed by key, value and bias; and the random state.
struct AttentionInputsAt {
  int query, state;
};
inline constexpr AttentionInputsAt kForwardInputs{0, 4}, kBackwardInputs{1, 8};

inline AttentionSizes attention_sizes(const Problem& p, AttentionInputsAt in) {
  return attention_sizes(p.inputs[static_cast<std::size_t>(in.query)].shape, p.inputs[static_cast<std::size_t>(in.query) + 2].shape);
}

/// @throws ShapeError if the inputs do not fit together
void check_attention(const char* op, const Specs& inputs, AttentionInputsAt in, const Attributes& attributes);

/// Attributes of the forward and the backward record.
std::vector<AttributeDef> attention_attributes();

// ---- reference.cpp
void attention_reference(const HostCall& c);
void attention_backward_reference(const HostCall& c);
void attention_dropout_reference(const HostCall& c);

// ---- launch.cpp
std::vector<Variant> attention_variants();
std::vector<Variant> attention_backward_variants();
std::vector<Variant> attention_dropout_variants();

// ---- gradient.cpp: gradients in public operators, which store full score matrices
Values attention_gradient(const Backward& b);
Values attention_backward_gradient(const Backward& b);

}  // namespace gemel::inline ops
