// Recurrent layers over whole sequences, in one direction.
// Legend: N sequences of T steps, H hidden size. `weight` [H, G H] multiplies the hidden state; gates are in PyTorch's order.
#pragma once
#include <span>

#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel::inline ops {

enum class Reverse { no, yes };  // yes: each sequence is read from its last step to its first
/// Inputs of a recurrent layer, without its parameters.
struct Sequences {
  Value x;             // float32 [N, T, G H]: the inputs times their weight
  Value lengths = {};  // int64 [N], 0..T: later steps are not read, and their outputs are 0; empty: all have T steps
  Reverse reverse = Reverse::no;
};
/// Hidden and cell state, float32 [N, H] each; empty: zeros.
struct LstmState {
  Value h = {}, c = {};
};
struct LstmResult {
  Value y;          // [N, T, H]: hidden state after each step
  LstmState state;  // after each sequence's last step
};
/// i, f, o = sigmoid, g = tanh of (x + h weight + bias);  c' = f c + i g;  h' = o tanh(c').
/// @param weight  [H, 4 H]  @param bias  [4 H], sum of the input's and the hidden state's bias; gates in order i, f, g, o
/// A length out of range counts as 0, and the host's next read throws.
/// Source: S. Hochreiter, J. Schmidhuber, Long short-term memory, 1997; F. A. Gers et al., Learning to forget, 2000
LstmResult lstm(Sequences in, Value weight, Value bias, LstmState start = {});
/// The same results, but for their rounding, by the operators of the formula, one step after another. No length is refused: below 0 counts as 0,
/// above T as T.
LstmResult lstm_steps(Sequences in, Value weight, Value bias, LstmState start = {});
struct GruParameters {
  Value weight;             // [H, 3 H], gates in order r, z, n
  Value bias, hidden_bias;  // [3 H]: of the input, and of the hidden state; r scales the latter with its product
};
struct GruResult {
  Value y, h;  // [N, T, H], [N, H]
};
/// r, z = sigmoid(x + bias + h weight + hidden_bias);  n = tanh(x + bias + r (h weight + hidden_bias));  h' = (1 - z) n + z h.
/// @param start  float32 [N, H]; empty: zeros. Lengths are as for lstm.
/// Source: K. Cho et al., Learning phrase representations using RNN encoder-decoder, 2014, in PyTorch's form
GruResult gru(Sequences in, GruParameters parameters, Value start = {});

// ---- records
std::span<const OpDef* const> recurrent_operators();
const OpDef& lstm_def();
const OpDef& lstm_backward_def();
const OpDef& gru_def();
const OpDef& gru_backward_def();

}  // namespace gemel::inline ops
