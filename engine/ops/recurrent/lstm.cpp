// LSTM over whole sequences, in one direction; the formulas are in opencl/kernels/lib/ops/lstm.clh. Legend: engine/ops/recurrent/recurrent_common.h.
#include <cmath>

#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/gradients/composed_gradient.h"
#include "engine/ops/matmul/matmul.h"
#include "engine/ops/ops.h"
#include "engine/ops/recurrent/recurrent_common.h"
#include "engine/ops/recurrent/recurrent_launch.h"

namespace gemel::inline ops {
namespace {

using namespace recurrent;

constexpr std::int64_t kGates = 4;
// Inputs of the records.
enum Forward { kX, kWeight, kBias, kH0, kC0, kLengths };
enum Behind { kDy, kDh, kDc, kWeightBehind, kC0Behind, kGatesBehind, kCellsBehind, kLengthsBehind };

const Form& forward_form() {
  static const Form form{"lstm", Pass::forward, kWeight, kGates, {{1, kH0}, {2, kC0}}};
  return form;
}
const Form& backward_form() {
  static const Form form{"lstm", Pass::backward, kWeightBehind, kGates, {{1, kDh}, {2, kDc}}};
  return form;
}

Specs infer(const Specs& in, const Attributes&) {
  const Sizes s = checked_sizes(lstm_def(), in, kWeight, kGates);
  check_inputs(lstm_def(), in, {s.sequence(s.width()), in[kWeight].shape, Shape{s.width()}, s.state(), s.state()});
  const Spec y{s.sequence(s.hidden), DType::float32}, state{s.state(), DType::float32};
  return {y, state, state, in[kX], y};
}

Specs backward_infer(const Specs& in, const Attributes&) {
  const Sizes s = checked_sizes(lstm_backward_def(), in, kWeightBehind, kGates);
  const Shape y = s.sequence(s.hidden), gates = s.sequence(s.width());
  check_inputs(lstm_backward_def(), in, {y, s.state(), s.state(), in[kWeightBehind].shape, s.state(), gates, y});
  const Spec state{s.state(), DType::float32};
  return {{gates, DType::float32}, state, state};
}

// ---- reference

void reference(const HostCall& c) {
  const std::int64_t N = c.in_shape(kX)[0], T = c.in_shape(kX)[1];
  const std::size_t H = at(c.in_shape(kWeight)[0]);
  for (std::int64_t n = 0; n < N; ++n) {
    const auto h = row_of(c.out_real(1), n, H), cell = row_of(c.out_real(2), n, H);
    std::ranges::copy(row_of(c.real(kH0), n, H), h.begin());
    std::ranges::copy(row_of(c.real(kC0), n, H), cell.begin());
    const std::vector<std::int64_t> steps = steps_of(c, n);
    for (int o : {0, 3, 4}) clear_behind(c, o, n, steps.size());
    for (std::int64_t t : steps) {
      const auto gates = row_of(c.out_real(3), n * T + t, 4 * H);
      const auto x = row_of(c.real(kX), n * T + t, 4 * H);
      for (std::size_t j = 0; j < gates.size(); ++j) gates[j] = x[j] + c.real(kBias)[j];
      add_product(h, c.real(kWeight), gates);
      for (std::size_t j = 0; j < H; ++j) {
        for (std::size_t g : {0u, 1u, 3u}) gates[g * H + j] = sigmoid_of(gates[g * H + j]);
        gates[2 * H + j] = std::tanh(gates[2 * H + j]);
        cell[j] = gates[H + j] * cell[j] + gates[j] * gates[2 * H + j];
        h[j] = gates[3 * H + j] * std::tanh(cell[j]);
      }
      std::ranges::copy(h, row_of(c.out_real(0), n * T + t, H).begin());
      std::ranges::copy(cell, row_of(c.out_real(4), n * T + t, H).begin());
    }
  }
}

void backward_reference(const HostCall& c) {
  const std::int64_t N = c.in_shape(kDy)[0], T = c.in_shape(kDy)[1];
  const std::size_t H = at(c.in_shape(kWeightBehind)[0]);
  for (std::int64_t n = 0; n < N; ++n) {
    const auto dh = row_of(c.out_real(1), n, H), dc = row_of(c.out_real(2), n, H);
    std::ranges::copy(row_of(c.real(kDh), n, H), dh.begin());
    std::ranges::copy(row_of(c.real(kDc), n, H), dc.begin());
    const std::vector<std::int64_t> steps = steps_of(c, n);
    clear_behind(c, 0, n, steps.size());
    for (std::size_t s = steps.size(); s-- > 0;) {
      const std::int64_t t = n * T + steps[s];
      const auto gates = row_of(c.real(kGatesBehind), t, 4 * H), cell = row_of(c.real(kCellsBehind), t, H), dy = row_of(c.real(kDy), t, H);
      const auto before = s > 0 ? row_of(c.real(kCellsBehind), n * T + steps[s - 1], H) : row_of(c.real(kC0Behind), n, H);
      const auto dx = row_of(c.out_real(0), t, 4 * H);
      for (std::size_t j = 0; j < H; ++j) {
        const double i = gates[j], f = gates[H + j], g = gates[2 * H + j], o = gates[3 * H + j], top = std::tanh(cell[j]);
        const double arrived = dh[j] + dy[j], slope = dc[j] + arrived * o * (1 - top * top);
        dx[j] = slope * g * i * (1 - i);
        dx[H + j] = slope * before[j] * f * (1 - f);
        dx[2 * H + j] = slope * i * (1 - g * g);
        dx[3 * H + j] = arrived * top * o * (1 - o);
        dc[j] = slope * f;
        dh[j] = 0;
      }
      add_turned_product(dx, c.real(kWeightBehind), dh);
    }
  }
}

// ---- in public operators

/// The outputs of the forward record. @param keeps  gates and cells too, which its gradient reads
Values in_steps(const Values& in, bool reverse, bool keeps) {
  const Value &x = in[kX], &lengths = in[kLengths];
  const std::int64_t T = x.shape()[1], H = in[kWeight].shape()[0];
  const Value none = full(x.session(), f32({1}), 0);
  Value h = in[kH0], c = in[kC0];
  Values y(at(T)), kept_gates(at(T)), cells(at(T));
  for (std::int64_t t : forward_steps(T, reverse)) {
    const Values sums = split(at_step(x, t) + in[kBias] + matmul(h, in[kWeight]), {H, H, H, H}, 1);
    const Value i = sigmoid(sums[0]), f = sigmoid(sums[1]), g = tanh(sums[2]), o = sigmoid(sums[3]);
    const Value cell = f * c + i * g, state = o * tanh(cell), read = is_read(lengths, t);
    y[at(t)] = where(read, state, none);
    h = where(read, state, h);
    c = where(read, cell, c);
    if (!keeps) continue;
    kept_gates[at(t)] = where(read, concatenate({i, f, g, o}, 1), none);
    cells[at(t)] = where(read, cell, none);
  }
  if (!keeps) return {stacked(y), h, c};
  return {stacked(y), h, c, stacked(kept_gates), stacked(cells)};
}

/// The gradients of the gates' and cells' own, where they have any.
struct Kept {
  Value gates = {}, cells = {};
};

/// What the backward record computes, in public operators.
Values composed_backward(const Values& in, bool reverse, const Kept& kept = {}) {
  const Value &weight = in[kWeightBehind], &lengths = in[kLengthsBehind];
  const std::int64_t T = in[kDy].shape()[1], H = weight.shape()[0];
  const Before cells{in[kCellsBehind], in[kC0Behind], lengths, reverse};
  Value dh = in[kDh], dc = in[kDc];
  Values dx(at(T));
  const auto slope_of = [](const Value& s) { return s - s * s; };  // of the sigmoid that s is
  for (std::int64_t t : backward_steps(T, reverse)) {
    const Values gates = split(at_step(in[kGatesBehind], t), {H, H, H, H}, 1);
    const Value &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3], top = tanh(at_step(cells.states, t));
    const Value arrived = dh + at_step(in[kDy], t), read = is_read(lengths, t);
    Value slope = dc + arrived * o * (1.0 + negate(top * top));
    if (kept.cells) slope = slope + at_step(kept.cells, t);
    Values d{slope * g, slope * before(cells, t), slope * i, arrived * top};
    if (kept.gates) {
      const Values more = split(at_step(kept.gates, t), {H, H, H, H}, 1);
      for (std::size_t k = 0; k < d.size(); ++k) d[k] = d[k] + more[k];
    }
    const Value through = concatenate({d[0] * slope_of(i), d[1] * slope_of(f), d[2] * (1.0 + negate(g * g)), d[3] * slope_of(o)}, 1);
    dx[at(t)] = where(read, through, full(through.session(), f32({1}), 0));
    dh = where(read, matmul(through, weight, Transpose::no, Transpose::yes), dh);
    dc = where(read, slope * f, dc);
  }
  return {stacked(dx), dh, dc};
}

// ---- gradients

Values gradient(const Backward& b) {
  const bool reverse = is_reverse(b.attributes());
  const Values in = list(gradient_or_zeros(b, 0), gradient_or_zeros(b, 1), gradient_or_zeros(b, 2), b.input(kWeight), b.input(kC0), b.output(3), b.output(4),
                         b.input(kLengths));
  const Values places{b.place(kX), b.place(kH0), b.place(kC0)};
  const Kept kept{b.has_gradient(3) ? b.gradient(3) : Value(), b.has_gradient(4) ? b.gradient(4) : Value()};
  const Values found = kept.gates || kept.cells ? composed_backward(in, reverse, kept) : apply(lstm_backward_def(), in, b.attributes(), places);
  Values out(at(b.input_count()));
  const Value rows = rows_of(found[0]);
  if (b.wants(kWeight)) out[kWeight] = weight_gradient(b, kWeight, rows_of(all_before({b.output(0), b.input(kH0), b.input(kLengths), reverse})), rows);
  if (b.wants(kBias)) out[kBias] = sum_to(rows, b.input_shape(kBias), b.place(kBias));
  if (b.wants(kX)) out[kX] = found[0];
  if (b.wants(kH0)) out[kH0] = found[1];
  if (b.wants(kC0)) out[kC0] = found[2];
  return out;
}

// ---- samples

/// About the edges of vectors, panels and tiles; lengths from 0.
Sample sample_of(std::int64_t N, std::int64_t T, std::int64_t H, bool reverse) {
  return {{f32({N, T, 4 * H}), f32({H, 4 * H}), f32({4 * H}), f32({N, H}), f32({N, H}), i64({N})},
          {{"reverse", reverse}},
          {Fill{}, uniform(-1, 1), Fill{}, uniform(-1, 1), uniform(-1, 1), integers(0, static_cast<int>(T) + 1)}};
}
Sample backward_sample_of(std::int64_t N, std::int64_t T, std::int64_t H, bool reverse) {
  return {{f32({N, T, H}), f32({N, H}), f32({N, H}), f32({H, 4 * H}), f32({N, H}), f32({N, T, 4 * H}), f32({N, T, H}), i64({N})},
          {{"reverse", reverse}},
          {Fill{}, Fill{}, Fill{}, uniform(-1, 1), Fill{}, uniform(0, 1), Fill{}, integers(0, static_cast<int>(T) + 1)}};
}

}  // namespace

const OpDef& lstm_def() {
  static const OpDef def{
      .name = "lstm",
      .doc = "A long short-term memory's states along sequences of different lengths, in one direction.",
      .inputs = {"x", "weight", "bias", "h0", "c0", "lengths"},
      .outputs = {"y", "h_n", "c_n", "gates", "cells"},
      .attributes = {reverse_attribute()},
      .infer = infer,
      .cost = [](const Problem& p) { return cost_of(p, kWeight, 45); },
      .reference = reference,
      .gradient = gradient,
      .gradient_reads = {inputs(kWeight, kH0, kC0, kLengths) | outputs(0, 3, 4)},
      .composed = [](const Values& in, const Attributes& a) { return in_steps(in, is_reverse(a), true); },
      .may_reuse = {{3, kX}},
      .variants = variants<forward_form>(),
      .samples = [] { return samples_of(sample_of); },
      .rejected =
          [] {
            const Attributes a{{"reverse", false}};
            const Spec x = f32({2, 5, 12}), w = f32({3, 12}), state = f32({2, 3});
            return std::vector<Rejected>{{{f32({2, 12}), w, f32({12}), state, state, i64({2})}, a, "lstm: x is [2, 12], of rank 2; accepted: rank 3"},
                                         {{f32({2, 0, 12}), w, f32({12}), state, state, i64({2})}, a, "lstm: x is [2, 0, 12]; accepted: at least one step"},
                                         {{x, f32({12, 3}), f32({12}), state, state, i64({2})}, a, "lstm: weight is [12, 3]; accepted: [H, 4 H]"},
                                         {{f32({2, 5, 9}), w, f32({12}), state, state, i64({2})}, a, "lstm: x is [2, 5, 9]; accepted: [2, 5, 12]"},
                                         {{x, w, f32({3}), state, state, i64({2})}, a, "lstm: bias is [3]; accepted: [12]"},
                                         {{x, w, f32({12}), f32({5, 3}), state, i64({2})}, a, "lstm: h0 is [5, 3]; accepted: [2, 3]"},
                                         {{x, w, f32({12}), state, state, i32({2})}, a, "lstm: lengths is int32 [2]; accepted: int64"},
                                         {{x, w, f32({12}), state, state, i64({5})}, a, "lstm: lengths is [5]; accepted: [2]"}};
          },
  };
  return def;
}

const OpDef& lstm_backward_def() {
  static const OpDef def{
      .name = "lstm_backward",
      .doc = "The gradients of lstm for x and the first states, from the gates and cells that it keeps.",
      .inputs = {"dy", "dh_n", "dc_n", "weight", "c0", "gates", "cells", "lengths"},
      .outputs = {"dx", "dh0", "dc0"},
      .attributes = {reverse_attribute()},
      .infer = backward_infer,
      .cost = [](const Problem& p) { return cost_of(p, kWeightBehind, 40); },
      .reference = backward_reference,
      .gradient = composed_gradient,
      .gradient_reads = {all_inputs},
      .composed = [](const Values& in, const Attributes& a) { return composed_backward(in, is_reverse(a)); },
      .may_reuse = {{0, kGatesBehind}},
      .variants = variants<backward_form>(),
      .samples = [] { return samples_of(backward_sample_of); },
      .rejected =
          [] {
            const Spec y = f32({2, 5, 3}), gates = f32({2, 5, 12}), w = f32({3, 12}), state = f32({2, 3});
            const Attributes a{{"reverse", false}};
            return std::vector<Rejected>{{{y, state, state, w, state, y, y, i64({2})}, a, "lstm_backward: gates is [2, 5, 3]; accepted: [2, 5, 12]"},
                                         {{y, state, state, f32({0, 0}), state, gates, y, i64({2})}, a, "lstm_backward: weight is [0, 0]; accepted: [H, 4 H]"}};
          },
  };
  return def;
}

namespace {

Values inputs_of(Sequences in, Value weight, Value bias, LstmState start) {
  Value lengths = lengths_or_all(in), h0 = state_or_zeros(std::move(start.h), in, weight), c0 = state_or_zeros(std::move(start.c), in, weight);
  return list(std::move(in.x), std::move(weight), std::move(bias), std::move(h0), std::move(c0), std::move(lengths));
}

LstmResult result_of(Values out) { return {std::move(out[0]), {std::move(out[1]), std::move(out[2])}}; }

}  // namespace

LstmResult lstm(Sequences in, Value weight, Value bias, LstmState start) {
  const bool reverse = in.reverse == Reverse::yes;
  return result_of(apply(lstm_def(), inputs_of(std::move(in), std::move(weight), std::move(bias), std::move(start)), {{"reverse", reverse}}));
}

LstmResult lstm_steps(Sequences in, Value weight, Value bias, LstmState start) {
  const bool reverse = in.reverse == Reverse::yes;
  return result_of(in_steps(inputs_of(std::move(in), std::move(weight), std::move(bias), std::move(start)), reverse, false));
}

}  // namespace gemel::inline ops
