// GRU over whole sequences, in one direction; the formulas are in opencl/kernels/lib/ops/gru.clh. Legend: engine/ops/recurrent/recurrent_common.h.
#include <cmath>

#include "engine/core/session.h"
#include "engine/gradients/composed_gradient.h"
#include "engine/ops/matmul/matmul.h"
#include "engine/ops/ops.h"
#include "engine/ops/recurrent/recurrent_common.h"
#include "engine/ops/recurrent/recurrent_launch.h"

namespace gemel::inline ops {
namespace {

using namespace recurrent;

constexpr std::int64_t kGates = 3;
// Inputs of the records.
enum Forward { kX, kWeight, kBias, kHiddenBias, kH0, kLengths };
enum Behind { kDy, kDh, kWeightBehind, kH0Behind, kYBehind, kGatesBehind, kInnerBehind, kLengthsBehind };

const Form& forward_form() {
  static const Form form{"gru", Pass::forward, kWeight, kGates, {{1, kH0}}};
  return form;
}
const Form& backward_form() {
  static const Form form{"gru", Pass::backward, kWeightBehind, kGates, {{2, kDh}}};
  return form;
}

Specs infer(const Specs& in, const Attributes&) {
  const Sizes s = checked_sizes(gru_def(), in, kWeight, kGates);
  const Shape bias{s.width()};
  check_inputs(gru_def(), in, {s.sequence(s.width()), in[kWeight].shape, bias, bias, s.state()});
  const Spec y{s.sequence(s.hidden), DType::float32};
  return {y, {s.state(), DType::float32}, in[kX], y};
}

Specs backward_infer(const Specs& in, const Attributes&) {
  const Sizes s = checked_sizes(gru_backward_def(), in, kWeightBehind, kGates);
  const Shape y = s.sequence(s.hidden), gates = s.sequence(s.width());
  check_inputs(gru_backward_def(), in, {y, s.state(), in[kWeightBehind].shape, s.state(), y, gates, y});
  return {{gates, DType::float32}, {gates, DType::float32}, {s.state(), DType::float32}};
}

// ---- reference

void reference(const HostCall& c) {
  const std::int64_t N = c.in_shape(kX)[0], T = c.in_shape(kX)[1];
  const std::size_t H = at(c.in_shape(kWeight)[0]);
  for (std::int64_t n = 0; n < N; ++n) {
    const auto h = row_of(c.out_real(1), n, H);
    std::ranges::copy(row_of(c.real(kH0), n, H), h.begin());
    const std::vector<std::int64_t> steps = steps_of(c, n);
    for (int o : {0, 2, 3}) clear_behind(c, o, n, steps.size());
    for (std::int64_t t : steps) {
      const auto gates = row_of(c.out_real(2), n * T + t, 3 * H);
      const auto x = row_of(c.real(kX), n * T + t, 3 * H);
      std::vector<double> p(c.real(kHiddenBias).begin(), c.real(kHiddenBias).end());
      add_product(h, c.real(kWeight), p);
      for (std::size_t j = 0; j < H; ++j) {
        const auto input = [&](std::size_t g) { return x[g * H + j] + c.real(kBias)[g * H + j]; };
        const double r = sigmoid_of(input(0) + p[j]), z = sigmoid_of(input(1) + p[H + j]), candidate = std::tanh(input(2) + r * p[2 * H + j]);
        gates[j] = r, gates[H + j] = z, gates[2 * H + j] = candidate;
        h[j] = (1 - z) * candidate + z * h[j];
      }
      std::ranges::copy(h, row_of(c.out_real(0), n * T + t, H).begin());
      std::copy(p.begin() + std::ptrdiff_t(2 * H), p.end(), row_of(c.out_real(3), n * T + t, H).begin());
    }
  }
}

void backward_reference(const HostCall& c) {
  const std::int64_t N = c.in_shape(kDy)[0], T = c.in_shape(kDy)[1];
  const std::size_t H = at(c.in_shape(kWeightBehind)[0]);
  for (std::int64_t n = 0; n < N; ++n) {
    const auto dh = row_of(c.out_real(2), n, H);
    std::ranges::copy(row_of(c.real(kDh), n, H), dh.begin());
    const std::vector<std::int64_t> steps = steps_of(c, n);
    for (int o : {0, 1}) clear_behind(c, o, n, steps.size());
    for (std::size_t s = steps.size(); s-- > 0;) {
      const std::int64_t t = n * T + steps[s];
      const auto gates = row_of(c.real(kGatesBehind), t, 3 * H), inner = row_of(c.real(kInnerBehind), t, H), dy = row_of(c.real(kDy), t, H);
      const auto before = s > 0 ? row_of(c.real(kYBehind), n * T + steps[s - 1], H) : row_of(c.real(kH0Behind), n, H);
      const auto dx = row_of(c.out_real(0), t, 3 * H), dp = row_of(c.out_real(1), t, 3 * H);
      for (std::size_t j = 0; j < H; ++j) {
        const double r = gates[j], z = gates[H + j], candidate = gates[2 * H + j], arrived = dh[j] + dy[j];
        dx[2 * H + j] = arrived * (1 - z) * (1 - candidate * candidate);
        dx[j] = dp[j] = dx[2 * H + j] * inner[j] * r * (1 - r);
        dx[H + j] = dp[H + j] = arrived * (before[j] - candidate) * z * (1 - z);
        dp[2 * H + j] = r * dx[2 * H + j];
        dh[j] = arrived * z;
      }
      add_turned_product(dp, c.real(kWeightBehind), dh);
    }
  }
}

// ---- in public operators

Values composed(const Values& in, const Attributes& a) {
  const Value &x = in[kX], &lengths = in[kLengths];
  const std::int64_t T = x.shape()[1], H = in[kWeight].shape()[0];
  const Value none = full(x.session(), f32({1}), 0);
  Value h = in[kH0];
  Values y(at(T)), kept_gates(at(T)), inner(at(T));
  for (std::int64_t t : forward_steps(T, is_reverse(a))) {
    const Values of_x = split(at_step(x, t) + in[kBias], {H, H, H}, 1), of_h = split(matmul(h, in[kWeight]) + in[kHiddenBias], {H, H, H}, 1);
    const Value r = sigmoid(of_x[0] + of_h[0]), z = sigmoid(of_x[1] + of_h[1]), n = tanh(of_x[2] + r * of_h[2]);
    const Value state = (1.0 + negate(z)) * n + z * h, read = is_read(lengths, t);
    y[at(t)] = where(read, state, none);
    kept_gates[at(t)] = where(read, concatenate({r, z, n}, 1), none);
    inner[at(t)] = where(read, of_h[2], none);
    h = where(read, state, h);
  }
  return {stacked(y), h, stacked(kept_gates), stacked(inner)};
}

/// The gradients of the gates' and inner products' own, where they have any.
struct Kept {
  Value gates = {}, inner = {};
};

/// What the backward record computes, in public operators.
Values composed_backward(const Values& in, bool reverse, const Kept& kept = {}) {
  const Value &weight = in[kWeightBehind], &lengths = in[kLengthsBehind];
  const std::int64_t T = in[kDy].shape()[1], H = weight.shape()[0];
  const Before states{in[kYBehind], in[kH0Behind], lengths, reverse};
  Value dh = in[kDh];
  Values dx(at(T)), dp(at(T));
  const auto slope_of = [](const Value& s) { return s - s * s; };  // of the sigmoid that s is
  for (std::int64_t t : backward_steps(T, reverse)) {
    const Values gates = split(at_step(in[kGatesBehind], t), {H, H, H}, 1);
    const Value &r = gates[0], &z = gates[1], &n = gates[2], inner = at_step(in[kInnerBehind], t);
    const Value arrived = dh + at_step(in[kDy], t), read = is_read(lengths, t);
    Values more(3);
    if (kept.gates) more = split(at_step(kept.gates, t), {H, H, H}, 1);
    const auto with = [](const Value& x, const Value& other) { return other ? x + other : x; };
    const Value dn = with(arrived * (1.0 + negate(z)), more[2]) * (1.0 + negate(n * n));
    const Value dr = with(dn * inner, more[0]) * slope_of(r), dz = with(arrived * (before(states, t) - n), more[1]) * slope_of(z);
    const Value none = full(dn.session(), f32({1}), 0);
    const Value through = concatenate({dr, dz, with(r * dn, kept.inner ? at_step(kept.inner, t) : Value())}, 1);
    dx[at(t)] = where(read, concatenate({dr, dz, dn}, 1), none);
    dp[at(t)] = where(read, through, none);
    dh = where(read, arrived * z + matmul(through, weight, Transpose::no, Transpose::yes), dh);
  }
  return {stacked(dx), stacked(dp), dh};
}

// ---- gradients

Values gradient(const Backward& b) {
  const bool reverse = is_reverse(b.attributes());
  const Values in =
      list(gradient_or_zeros(b, 0), gradient_or_zeros(b, 1), b.input(kWeight), b.input(kH0), b.output(0), b.output(2), b.output(3), b.input(kLengths));
  const Values places{b.place(kX), Value(), b.place(kH0)};
  const Kept kept{b.has_gradient(2) ? b.gradient(2) : Value(), b.has_gradient(3) ? b.gradient(3) : Value()};
  const Values found = kept.gates || kept.inner ? composed_backward(in, reverse, kept) : apply(gru_backward_def(), in, b.attributes(), places);
  Values out(at(b.input_count()));
  const Value dp = rows_of(found[1]);
  if (b.wants(kWeight)) out[kWeight] = weight_gradient(b, kWeight, rows_of(all_before({b.output(0), b.input(kH0), b.input(kLengths), reverse})), dp);
  if (b.wants(kBias)) out[kBias] = sum_to(rows_of(found[0]), b.input_shape(kBias), b.place(kBias));
  if (b.wants(kHiddenBias)) out[kHiddenBias] = sum_to(dp, b.input_shape(kHiddenBias), b.place(kHiddenBias));
  if (b.wants(kX)) out[kX] = found[0];
  if (b.wants(kH0)) out[kH0] = found[2];
  return out;
}

// ---- samples

Sample sample_of(std::int64_t N, std::int64_t T, std::int64_t H, bool reverse) {
  return {{f32({N, T, 3 * H}), f32({H, 3 * H}), f32({3 * H}), f32({3 * H}), f32({N, H}), i64({N})},
          {{"reverse", reverse}},
          {Fill{}, uniform(-1, 1), Fill{}, Fill{}, uniform(-1, 1), integers(0, static_cast<int>(T) + 1)}};
}
Sample backward_sample_of(std::int64_t N, std::int64_t T, std::int64_t H, bool reverse) {
  return {{f32({N, T, H}), f32({N, H}), f32({H, 3 * H}), f32({N, H}), f32({N, T, H}), f32({N, T, 3 * H}), f32({N, T, H}), i64({N})},
          {{"reverse", reverse}},
          {Fill{}, Fill{}, uniform(-1, 1), Fill{}, Fill{}, uniform(0, 1), Fill{}, integers(0, static_cast<int>(T) + 1)}};
}

}  // namespace

const OpDef& gru_def() {
  static const OpDef def{
      .name = "gru",
      .doc = "A gated recurrent unit's states along sequences of different lengths, in one direction.",
      .inputs = {"x", "weight", "bias", "hidden_bias", "h0", "lengths"},
      .outputs = {"y", "h_n", "gates", "inner"},
      .attributes = {reverse_attribute()},
      .infer = infer,
      .cost = [](const Problem& p) { return cost_of(p, kWeight, 40); },
      .reference = reference,
      .gradient = gradient,
      .gradient_reads = {inputs(kWeight, kH0, kLengths) | outputs(0, 2, 3)},
      .composed = composed,
      .may_reuse = {{2, kX}},
      .variants = variants<forward_form>(),
      .samples = [] { return samples_of(sample_of); },
      .rejected =
          [] {
            const Attributes a{{"reverse", false}};
            const Spec x = f32({2, 5, 9}), w = f32({3, 9}), bias = f32({9}), state = f32({2, 3});
            return std::vector<Rejected>{{{x, f32({3, 12}), bias, bias, state, i64({2})}, a, "gru: weight is [3, 12]; accepted: [H, 3 H]"},
                                         {{x, w, bias, f32({3}), state, i64({2})}, a, "gru: hidden_bias is [3]; accepted: [9]"},
                                         {{x, w, bias, bias, f32({2, 9}), i64({2})}, a, "gru: h0 is [2, 9]; accepted: [2, 3]"}};
          },
  };
  return def;
}

const OpDef& gru_backward_def() {
  static const OpDef def{
      .name = "gru_backward",
      .doc = "The gradients of gru for x, for the hidden states' products and for the first states, from the gates and inner products that it keeps.",
      .inputs = {"dy", "dh_n", "weight", "h0", "y", "gates", "inner", "lengths"},
      .outputs = {"dx", "dp", "dh0"},
      .attributes = {reverse_attribute()},
      .infer = backward_infer,
      .cost = [](const Problem& p) { return cost_of(p, kWeightBehind, 25); },
      .reference = backward_reference,
      .gradient = composed_gradient,
      .gradient_reads = {all_inputs},
      .composed = [](const Values& in, const Attributes& a) { return composed_backward(in, is_reverse(a)); },
      .may_reuse = {{0, kGatesBehind}},
      .variants = variants<backward_form>(),
      .samples = [] { return samples_of(backward_sample_of); },
      .rejected =
          [] {
            const Spec y = f32({2, 5, 3}), w = f32({3, 9}), state = f32({2, 3});
            return std::vector<Rejected>{
                {{y, state, w, state, y, y, y, i64({2})}, {{"reverse", false}}, "gru_backward: gates is [2, 5, 3]; accepted: [2, 5, 9]"}};
          },
  };
  return def;
}

GruResult gru(Sequences in, GruParameters p, Value start) {
  Value lengths = lengths_or_all(in), h0 = state_or_zeros(std::move(start), in, p.weight);
  Values out = apply(gru_def(), list(std::move(in.x), std::move(p.weight), std::move(p.bias), std::move(p.hidden_bias), std::move(h0), std::move(lengths)),
                     {{"reverse", in.reverse == Reverse::yes}});
  return {std::move(out[0]), std::move(out[1])};
}

}  // namespace gemel::inline ops
