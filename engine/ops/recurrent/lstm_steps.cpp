// LSTM step by step, in public operators: what the kernels of lstm.cpp are measured against. Legend: engine/ops/recurrent/recurrent_ops.h.
#include "engine/base/numbers.h"
#include "engine/ops/ops.h"
#include "engine/ops/recurrent/recurrent_ops.h"

namespace gemel {

LstmResult lstm_steps(const Sequences& in, const Value& weight, const Value& bias, LstmState start) {
  using namespace recurrent;
  const std::int64_t T = in.x.shape()[1], H = weight.shape()[0];
  const Value lengths = lengths_or_all(in), none = full(in.x.session(), f32({1}), 0);
  Value h = state_or_zeros(std::move(start.h), in, weight), c = state_or_zeros(std::move(start.c), in, weight);
  Values y(at(T));
  for (const std::int64_t t : forward_steps(T, in.reverse == Reverse::yes)) {
    const Values sums = split(at_step(in.x, t) + bias + matmul(h, weight), {H, H, H, H}, 1);
    const Value i = sigmoid(sums[0]), f = sigmoid(sums[1]), g = tanh(sums[2]), o = sigmoid(sums[3]);
    const Value cell = f * c + i * g, state = o * tanh(cell), read = is_read(lengths, t);
    y[at(t)] = where(read, state, none);
    h = where(read, state, h);
    c = where(read, cell, c);
  }
  return {stacked(y), {h, c}};
}

}  // namespace gemel
