// Connectionist temporal classification; the formulas are in opencl/kernels/any/ctc.cl.
// Legend: log_probs [N, T, C]; targets [N, L]; a sample's states: blank, label 0, blank, label 1, ..., blank, S of them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/gradients/composed_gradient.h"
#include "engine/ops/common.h"
#include "engine/ops/loss/ctc_composed.h"
#include "engine/ops/ops.h"
#include "engine/ops/workspace_sections.h"

namespace gemel::inline ops {
namespace {

constexpr const char* kForward = "ctc_loss";
constexpr const char* kBackward = "ctc_loss_backward";
constexpr const char* kFile = "any/ctc.cl";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// @param first  the input that is log_probs; targets and both lengths follow it
void check(const char* op, const Specs& in, const Attributes& a, std::size_t first) {
  const Spec &x = in[first], &targets = in[first + 1];
  check_float32(op, "log_probs", x);
  check_rank(op, "log_probs", x, 3);
  if (x.elements() == 0) throw ShapeError(fmt::format("{}: log_probs is {}; accepted: at least one sample, frame and class", op, to_string(x.shape)));
  check_integer(op, "targets", targets);
  check_rank(op, "targets", targets, 2);
  check_shape(op, "targets", targets, Shape{x.shape[0], targets.shape[1]});
  for (std::size_t i : {first + 2, first + 3}) {
    check_same_dtype(op, targets, in[i]);
    check_shape(op, i == first + 2 ? "input_lengths" : "target_lengths", in[i], Shape{x.shape[0]});
  }
  const std::int64_t blank = a.integer("blank"), classes = x.shape[2];
  if (blank < 0 || blank >= classes) throw ShapeError(fmt::format("{}: blank {} is out of range; accepted: 0..{}", op, blank, classes - 1));
}

Specs infer(const Specs& in, const Attributes& a) {
  check(kForward, in, a, 0);
  return {{Shape{in[0].shape[0]}, DType::float32}};
}

Specs backward_infer(const Specs& in, const Attributes& a) {
  check(kBackward, in, a, 1);
  check_float32(kBackward, "dy", in[0]);
  check_shape(kBackward, "dy", in[0], Shape{in[1].shape[0]});
  return {in[1]};
}

// ---- reference

/// log(e^a + e^b)
double log_sum(double a, double b) {
  const double top = std::max(a, b);
  return top == -kInfinity ? top : top + std::log(std::exp(a - top) + std::exp(b - top));
}

using Row = std::vector<double>;  // [state]

/// One sample on the host.
class HostSample {
 public:
  /// @throws DataError for lengths or labels that are out of range
  HostSample(const HostCall& c, int log_probs, std::size_t n) {
    const std::size_t blank = at(c.attributes().integer("blank"));
    const Shape &x = c.in_shape(log_probs), &targets = c.in_shape(log_probs + 1);
    const auto T = x[1], C = x[2], L = targets[1];
    classes_ = at(C);
    x_ = c.real(log_probs).subspan(n * at(T * C), at(T * C));
    frames_ = at(checked("input length", c.integer(log_probs + 2)[n], T + 1));
    const std::int64_t count = checked("target length", c.integer(log_probs + 3)[n], L + 1);
    states_.push_back(blank);
    for (std::int64_t label : c.integer(log_probs + 1).subspan(n * at(L), at(count))) {
      states_.push_back(at(checked("label", label, C)));
      states_.push_back(blank);
    }
  }
  std::size_t frames() const { return frames_; }
  std::size_t state_class(std::size_t s) const { return states_[s]; }
  double score(std::size_t t, std::size_t s) const { return x_[t * classes_ + states_[s]]; }

  /// a of frames -1, 0, ...
  std::vector<Row> alphas() const {
    std::vector<Row> rows(frames_ + 1, Row(states_.size(), -kInfinity));
    rows[0][0] = 0;
    for (std::size_t t = 0; t < frames_; ++t)
      for (std::size_t r = 0; r < states_.size(); ++r)
        for (std::size_t s = r; s <= farthest(r); ++s)
          if (leads(r, s)) rows[t + 1][s] = log_sum(rows[t + 1][s], rows[t][r] + score(t, s));
    return rows;
  }
  /// b of frames 0, 1, ...
  std::vector<Row> betas() const {
    std::vector<Row> rows(frames_, Row(states_.size(), -kInfinity));
    for (std::size_t t = frames_; t-- > 0;)
      for (std::size_t r = 0; r < states_.size(); ++r) {
        if (t + 1 == frames_ && r + 2 >= states_.size()) rows[t][r] = 0;
        for (std::size_t s = r; t + 1 < frames_ && s <= farthest(r); ++s)
          if (leads(r, s)) rows[t][r] = log_sum(rows[t][r], rows[t + 1][s] + score(t + 1, s));
      }
    return rows;
  }
  double likelihood(const Row& last) const { return states_.size() > 1 ? log_sum(last.back(), last[last.size() - 2]) : last.back(); }

 private:
  static std::int64_t checked(const char* what, std::int64_t value, std::int64_t bound) {
    if (value < 0 || value >= bound) throw DataError(fmt::format("ctc_loss: {} {} is out of range; accepted: 0..{}", what, value, bound - 1));
    return value;
  }
  std::size_t farthest(std::size_t r) const { return std::min(r + 2, states_.size() - 1); }
  bool leads(std::size_t r, std::size_t s) const { return s < r + 2 || states_[s] != states_[r]; }

  std::size_t frames_, classes_;
  std::span<const double> x_;        // [T, C]
  std::vector<std::size_t> states_;  // their classes
};

void reference(const HostCall& c) {
  const bool zero_infinity = c.attributes().boolean("zero_infinity");
  for (std::size_t n = 0; n < c.out_real(0).size(); ++n) {
    const HostSample sample(c, 0, n);
    const double loss = -sample.likelihood(sample.alphas().back());
    c.out_real(0)[n] = zero_infinity && loss == kInfinity ? 0 : loss;
  }
}

void backward_reference(const HostCall& c) {
  const bool zero_infinity = c.attributes().boolean("zero_infinity");
  const std::size_t T = at(c.in_shape(1)[1]), C = at(c.in_shape(1)[2]);
  std::ranges::fill(c.out_real(0), 0.0);
  for (std::size_t n = 0; n < at(c.in_shape(1)[0]); ++n) {
    const HostSample sample(c, 1, n);
    const std::vector<Row> a = sample.alphas(), b = sample.betas();
    const double likelihood = sample.likelihood(a.back());
    const auto dx = c.out_real(0).subspan(n * T * C, sample.frames() * C);
    if (!std::isfinite(likelihood) && !(zero_infinity && likelihood == -kInfinity)) std::ranges::fill(dx, std::nan(""));
    if (!std::isfinite(likelihood)) continue;
    for (std::size_t t = 0; t < sample.frames(); ++t)
      for (std::size_t s = 0; s < a[t].size(); ++s) dx[t * C + sample.state_class(s)] -= c.real(0)[n] * std::exp(a[t + 1][s] + b[t][s] - likelihood);
  }
}

// ---- gradients

Value backward(Values in, const Attributes& a) { return apply(ctc_loss_backward_def(), std::move(in), a)[0]; }

Values gradient(const Backward& b) {
  return {backward(list(b.gradient(0), b.input(0), b.input(1), b.input(2), b.input(3)), b.attributes()), Value(), Value(), Value()};
}

/// With u the gradient of dx = dy dloss/dx:   d dy = sum u dloss/dx,   d x = dy times the losses' second derivative along u, 0 without alignment.
Values backward_gradient(const Backward& b) {
  Value d_dy;
  if (b.wants(0)) {
    const Value ones = full(b.session(), b.input_spec(0), 1);
    d_dy = sum(b.gradient(0) * backward(list(ones, b.input(1), b.input(2), b.input(3), b.input(4)), b.attributes()), {1, 2});
  }
  Values out = composed_gradient(b, {1});
  out[0] = std::move(d_dy);
  return out;
}

// ---- launches

enum class Pass { forward, backward };

/// The launches of a pass, by `group` work-items a sample, and its workspace: of each sample frames and labels, sums and a loss, then rows of states.
class Launches {
 public:
  Launches(const Problem& p, const opencl::DeviceProfile& profile, Pass pass, std::int64_t group)
      : pass_(pass), group_(group), first_(pass == Pass::forward ? 0 : 1) {
    const Shape &x = p.inputs[at(first_)].shape, &targets = p.inputs[at(first_) + 1].shape;
    N = x[0], T = x[1], C = x[2], L = targets[1];
    blank_ = p.attributes.integer("blank");
    zero_infinity_ = p.attributes.boolean("zero_infinity");
    options_ = fmt::format("-DLABEL={} -DGROUP={}", opencl_name(p.inputs[at(first_) + 1].dtype), group);
    const std::int64_t width = 2 * L + 3, whole = std::int64_t{sizeof(std::int64_t)}, real = std::int64_t{sizeof(float)};
    kept_ = pass == Pass::forward ? 2 : T + 1;
    sections_ = {{2 * N * whole, 2 * N * real, N * real, N * kept_ * width * real, pass == Pass::forward ? 0 : N * 3 * width * real}, profile};
    // Iterations of a work-item's loops in a frame, 64 of which are a group's reductions.
    const std::int64_t a_frame = C / group + L + 10 * (width / group) + 64;
    chunk_ = std::clamp<std::int64_t>(profile.longest_loop / a_frame, 1, std::max<std::int64_t>(T, 1));
  }
  std::int64_t bytes() const { return sections_.bytes(); }

  void run(const Launch& l) const {
    const opencl::Region lengths = section(l, 0), sums = section(l, 1), a = section(l, 3), scratch = section(l, 4);
    const opencl::Region losses = pass_ == Pass::forward ? l.out(0) : section(l, 2);
    const opencl::Region &x = l.in(first_), &labels = l.in(first_ + 1);
    l.run(kFile, "ctc_lengths", opencl::range1(round_up(N, group_), group_), {labels, l.in(first_ + 2), l.in(first_ + 3), lengths, l.error_word(), N, T, C, L},
          options_);
    const std::int32_t zeroed = zero_infinity_, zeroed_here = pass_ == Pass::forward ? zeroed : 0;
    for (std::int64_t t = 0; t < T; t += chunk_)
      l.run(kFile, "ctc_alphas", samples(), {x, labels, lengths, a, sums, losses, T, C, L, blank_, kept_, zeroed_here, t, std::min(t + chunk_, T)}, options_);
    if (pass_ == Pass::forward) return;
    for (std::int64_t t = T; t > 0; t -= chunk_)
      l.run(kFile, "ctc_backward", samples(),
            {l.in(0), x, labels, lengths, a, losses, scratch, l.out(0), T, C, L, blank_, zeroed, std::max<std::int64_t>(t - chunk_, 0), t}, options_);
  }

 private:
  opencl::Range samples() const { return opencl::range1(N * group_, group_); }
  opencl::Region section(const Launch& l, std::size_t i) const { return sections_.in(l.workspace(), i); }

  Pass pass_;
  std::int64_t group_;
  int first_;  // input that is log_probs
  std::int64_t N, T, C, L, blank_;
  std::int64_t kept_;   // rows of a that stay
  std::int64_t chunk_;  // frames of a launch
  bool zero_infinity_;
  std::string options_;
  Sections<5> sections_;
};

template <Pass pass, std::int64_t group>
std::int64_t workspace_bytes(const Problem& p, const opencl::DeviceProfile& profile) {
  return Launches(p, profile, pass, group).bytes();
}
template <Pass pass, std::int64_t group>
void launch(Launch& l) {
  Launches(l.problem(), l.profile(), pass, group).run(l);
}

template <Pass pass>
std::vector<Variant> variants() {
  return {{.name = "group_a_sample",
           .doc = "a work-group a sample, along its states",
           .target = Target::gpu,
           .needs = {.group_size = 64},
           .workspace_bytes = workspace_bytes<pass, 64>,
           .launch = launch<pass, 64>},
          {.name = "samples",
           .doc = "a work-item a sample, in vectors along its states",
           .target = Target::cpu,
           .workspace_bytes = workspace_bytes<pass, 1>,
           .launch = launch<pass, 1>}};
}

template <Pass pass>
Cost cost(const Problem& p) {
  constexpr std::size_t first = pass == Pass::forward ? 0 : 1;
  const Shape& x = p.inputs[first].shape;
  const std::int64_t states = x[0] * x[1] * (2 * p.inputs[first + 1].shape[1] + 1);
  Cost c{(pass == Pass::forward ? 10 : 26) * states, 4 * states * (pass == Pass::forward ? 1 : 4)};
  for (const Spec& s : p.outputs) c.bytes += s.bytes();
  return c;
}

// ---- samples

/// Frames are enough for any labels: 2 L - 1.
std::vector<Sample> samples(Pass pass) {
  bool zero_infinity = false;
  const auto sample = [&](std::array<std::int64_t, 3> x, std::int64_t L, std::int64_t blank, DType whole) {
    const auto [N, T, C] = x;
    zero_infinity = !zero_infinity;
    Sample s{{{Shape{N, T, C}, DType::float32}, {Shape{N, L}, whole}, {Shape{N}, whole}, {Shape{N}, whole}},
             {{"blank", blank}, {"zero_infinity", zero_infinity}},
             {Fill{}, blank == 0 ? integers(1, static_cast<int>(C)) : integers(0, static_cast<int>(blank)),
              integers(static_cast<int>(std::max<std::int64_t>(0, 2 * L - 1)), static_cast<int>(T) + 1), integers(0, static_cast<int>(L) + 1)}};
    if (pass == Pass::backward) {
      s.inputs.insert(s.inputs.begin(), {Shape{N}, DType::float32});
      s.fills.insert(s.fills.begin(), Fill{});
    }
    return s;
  };
  return {sample({3, 7, 5}, 3, 0, DType::int64),   sample({2, 9, 4}, 4, 3, DType::int32), sample({1, 1, 2}, 1, 0, DType::int64),
          sample({17, 5, 3}, 2, 0, DType::int32),  sample({2, 4, 2}, 0, 1, DType::int64), sample({2, 40, 33}, 17, 32, DType::int64),
          sample({1, 140, 8}, 65, 0, DType::int64)};
}

const AttributeDef kBlank{"blank", Type::integer, "class that stands for no label, 0..C-1"};
const AttributeDef kZeroInfinity{"zero_infinity", Type::boolean, "whether the loss of a sample without alignment is 0, not infinity"};

}  // namespace

const OpDef& ctc_loss_def() {
  static const OpDef def{
      .name = kForward,
      .doc = "For each sample -log of the probability of its labels in any alignment to the frames: connectionist temporal classification.",
      .inputs = {"log_probs", "targets", "input_lengths", "target_lengths"},
      .attributes = {kBlank, kZeroInfinity},
      .infer = infer,
      .cost = cost<Pass::forward>,
      .reference = reference,
      .gradient = gradient,
      .gradient_reads = {inputs(0, 1, 2, 3), nothing},
      .composed = composed_ctc_loss,
      .variants = variants<Pass::forward>(),
      .samples = [] { return samples(Pass::forward); },
      .rejected =
          [] {
            const Attributes a{{"blank", 0}, {"zero_infinity", false}};
            const Spec x = f32({2, 5, 4});
            return std::vector<Rejected>{
                {{x, i64({2}), i64({2}), i64({2})}, a, "ctc_loss: targets is [2], of rank 1; accepted: rank 2"},
                {{x, i64({3, 2}), i64({2}), i64({2})}, a, "ctc_loss: targets is [3, 2]; accepted: [2, 2]"},
                {{x, f32({2, 2}), i64({2}), i64({2})}, a, "ctc_loss: targets is float32 [2, 2]; accepted: int32 or int64"},
                {{x, i64({2, 2}), i64({3}), i64({2})}, a, "ctc_loss: input_lengths is [3]; accepted: [2]"},
                {{x, i64({2, 2}), i64({2}), i32({2})}, a, "ctc_loss: int64 [2, 2] and int32 [2] differ in element type; accepted: equal types, cast one"},
                {{f32({2, 0, 4}), i64({2, 2}), i64({2}), i64({2})}, a, "ctc_loss: log_probs is [2, 0, 4]; accepted: at least one sample, frame and class"},
                {{x, i64({2, 2}), i64({2}), i64({2})}, {{"blank", 4}, {"zero_infinity", false}}, "ctc_loss: blank 4 is out of range; accepted: 0..3"}};
          },
  };
  return def;
}

const OpDef& ctc_loss_backward_def() {
  static const OpDef def{
      .name = kBackward,
      .doc = "The gradient of ctc_loss for log_probs.",
      .inputs = {"dy", "log_probs", "targets", "input_lengths", "target_lengths"},
      .outputs = {"dx"},
      .attributes = {kBlank, kZeroInfinity},
      .infer = backward_infer,
      .cost = cost<Pass::backward>,
      .reference = backward_reference,
      .gradient = backward_gradient,
      .gradient_reads = {inputs(1, 2, 3, 4), inputs(0, 1, 2, 3, 4), nothing},
      .composed = composed_ctc_loss_backward,
      .variants = variants<Pass::backward>(),
      .samples = [] { return samples(Pass::backward); },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({3}), f32({2, 5, 4}), i64({2, 2}), i64({2}), i64({2})},
                                          {{"blank", 0}, {"zero_infinity", false}},
                                          "ctc_loss_backward: dy is [3]; accepted: [2]"}};
          },
  };
  return def;
}

Value ctc_losses(Value log_probs, Value input_lengths, CtcTargets targets, const Ctc& ctc) {
  return apply(ctc_loss_def(), list(std::move(log_probs), std::move(targets.labels), std::move(input_lengths), std::move(targets.lengths)),
               {{"blank", ctc.blank}, {"zero_infinity", ctc.zero_infinity}})[0];
}

Value ctc_loss(Value log_probs, Value input_lengths, CtcTargets targets, const Ctc& ctc, LossReduction reduction) {
  const Value lengths = targets.lengths;
  Value losses = ctc_losses(std::move(log_probs), std::move(input_lengths), std::move(targets), ctc);
  if (reduction == LossReduction::sum) return sum(std::move(losses));
  return mean(std::move(losses) / cast(maximum(lengths, full(lengths.session(), {Shape{1}, lengths.dtype()}, 1)), DType::float32));
}

}  // namespace gemel::inline ops
