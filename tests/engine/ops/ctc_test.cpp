// Connectionist temporal classification: PyTorch's numbers, closed forms, and lengths and labels that are out of range.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/device_memory.h"
#include "engine/device/dispatch.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/operators/expected_values.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

using List = std::vector<double>;

struct CtcCase {
  const char* name;
  Ctc ctc;
};
const std::array kCtcCases{CtcCase{"blank 0", {}}, CtcCase{"blank 3", {.blank = 3}}, CtcCase{"infinity", {}}, CtcCase{"infinity is 0", {.zero_infinity = true}},
                           CtcCase{"long", {}}};

/// @param error  largest one, relative to the largest number
void expect_pytorchs(Session& session, const CtcCase& c, double error) {
  SCOPED_TRACE(c.name);
  const Expected expected("losses/ctc.safetensors");
  const auto tensor = [&](const char* what) { return expected.tensor(session, fmt::format("{}.{}", c.name, what)); };
  const auto numbers = [&](const char* what) { return expected.numbers(fmt::format("{}.{}", c.name, what)); };
  const Value logits = leaf(tensor("logits")), log_probs = log_softmax(logits, 2), lengths = tensor("input_lengths");
  const CtcTargets targets{tensor("targets"), tensor("target_lengths")};
  const Value mean = ctc_loss(log_probs, lengths, targets, c.ctc);
  EXPECT_LE(relative_error(read(ctc_losses(log_probs, lengths, targets, c.ctc)), numbers("none")), error);
  EXPECT_LE(relative_error(read(ctc_loss(log_probs, lengths, targets, c.ctc, LossReduction::sum)), numbers("sum")), error);
  EXPECT_LE(relative_error(read(mean), numbers("mean")), error);
  EXPECT_LE(relative_error(read(gradient({mean}, {logits})[0]), numbers("gradient")), error);
}

TEST(Ctc, gives_pytorchs_losses_and_gradients) {
  const auto reference = Session::reference();
  for (const CtcCase& c : kCtcCases) {
    expect_pytorchs(*reference, c, 2e-7);  // stored in float32, whose last place is 6e-8; as are the logits, exactly
    // log_softmax rounds numbers of about 10 by 5e-7, which add up along the alignments' 250 frames as their root.
    expect_pytorchs(test_session(), c, 8e-6);
  }
}

/// Outputs of a variant on a record's inputs.
List run_variant(const OpDef& op, const Variant& variant, const Values& in, const Attributes& attributes) {
  const Specs specs = specs_of(in), made = op.infer(specs, attributes);
  const Value out = test_session().empty(made[0]);
  std::vector<opencl::Region> regions;
  for (const Value& v : in) regions.push_back(region_of(v));
  launch(test_session(), variant, {op, attributes, specs, made}, regions, std::array{region_of(out)});
  return read(out);
}

Value numbers(const Spec& spec, const List& values) { return test_session().tensor(spec, std::span<const double>(values)); }

TEST(Ctc, every_variant_gives_infinities_and_what_is_no_number_where_pytorch_does) {
  const Expected expected("losses/ctc.safetensors");
  for (const bool zero : {false, true}) {
    const std::string name = zero ? "infinity is 0" : "infinity";
    const auto tensor = [&](const char* what) { return expected.tensor(test_session(), name + "." + what); };
    const Value log_probs = log_softmax(tensor("logits"), 2);
    const Values in{log_probs, tensor("targets"), tensor("input_lengths"), tensor("target_lengths")};
    const Attributes attributes{{"blank", 0}, {"zero_infinity", zero}};
    for (const Variant& v : ctc_loss_def().variants)
      EXPECT_LE(relative_error(run_variant(ctc_loss_def(), v, in, attributes), expected.numbers(name + ".none")), 1e-6) << v.name;
    Values behind = in;
    behind.insert(behind.begin(), numbers(f32({5}), List(5, 1)));
    for (const Variant& v : ctc_loss_backward_def().variants) {
      const List dx = run_variant(ctc_loss_backward_def(), v, behind, attributes);
      for (std::size_t n = 0; n < 5; ++n)
        for (std::size_t t = 0; t < 5; ++t) {
          const bool inside = t < std::array{2u, 2u, 0u, 0u, 4u}[n], aligned = n >= 3;
          double sum = 0;
          for (std::size_t k = 0; k < 3; ++k) sum += dx[(n * 5 + t) * 3 + k];
          if (inside && !aligned && !zero)
            EXPECT_TRUE(std::isnan(sum)) << v.name << ", sample " << n << ", frame " << t;
          else
            EXPECT_NEAR(sum, inside && aligned ? -1 : 0, 1e-6) << v.name << ", sample " << n << ", frame " << t;  // of a few probabilities
        }
    }
  }
}

TEST(Ctc, rounding_does_not_grow_with_the_frames) {
  // Where all classes are alike, only the alignments count: of L labels that differ, binomial(T + L, 2 L) of probability C^-T each.
  const double T = does_long_work() ? 5000 : 200, L = 3, C = 4;
  const Spec spec{Shape{1, static_cast<std::int64_t>(T), 4}, DType::float32};
  const Values in{numbers(spec, List(at(spec.elements()), -std::log(C))), numbers(i32({1, 3}), {1, 2, 3}), numbers(i32({1}), {T}), numbers(i32({1}), {L})};
  const double alignments = std::lgamma(T + L + 1) - std::lgamma(2 * L + 1) - std::lgamma(T - L + 1), loss = T * std::log(C) - alignments;
  const Attributes attributes{{"blank", 0}, {"zero_infinity", false}};
  // A frame's rounding is of numbers near 0, as likely up as down; that of T log C is the input's.
  for (const Variant& v : ctc_loss_def().variants) EXPECT_NEAR(run_variant(ctc_loss_def(), v, in, attributes)[0] / loss, 1, 3e-7) << v.name;
  Values behind = in;
  behind.insert(behind.begin(), numbers(f32({1}), {1}));
  const List exact = [&] {
    const auto session = Session::reference();
    Values there;
    for (const Value& v : behind) there.push_back(session->tensor(v.spec(), std::span<const double>(read(v))));
    return read(apply(*session, ctc_loss_backward_def(), there, attributes)[0]);
  }();
  for (const Variant& v : ctc_loss_backward_def().variants) {
    const List dx = run_variant(ctc_loss_backward_def(), v, behind, attributes);
    EXPECT_LE(relative_error(dx, exact), 1e-4) << v.name;
    double sum = 0;
    for (const double d : dx) sum += d;
    EXPECT_NEAR(sum / T, -1, 1e-7) << v.name;  // the states of a frame share all of the probability
  }
}

TEST(Ctc, a_sample_with_a_length_or_a_label_out_of_range_counts_nothing_and_is_told_by_the_next_read) {
  struct Wrong {
    List labels, frames, counts;
    const char* message;
  };
  for (const Wrong& w : {Wrong{{1, 9, 1, 2, 7, 1}, {4, 4}, {2, 2}, "an index or label 7 is out of range; accepted: 0..2"},
                         Wrong{{1, 9, 1, 2, 1, -1}, {4, 4}, {2, 3}, "an index or label -1 is out of range; accepted: 0..2"},
                         Wrong{{1, 2, 1, 2, 1, 1}, {4, 5}, {2, 1}, "a length 5 is out of range; accepted: 0..4"},
                         Wrong{{1, 2, 1, 2, 1, 1}, {4, -1}, {2, 1}, "a length -1 is out of range; accepted: 0..4"},
                         Wrong{{1, 2, 1, 2, 1, 1}, {4, 3}, {2, 4}, "a length 4 is out of range; accepted: 0..3"}}) {
    const bool padded = w.labels[1] == 9;  // a sample of one label, the second one is padding
    const List counts{padded ? 1.0 : w.counts[0], w.counts[1]};
    for (const DType whole : {DType::int32, DType::int64}) {
      const Spec lengths{Shape{2}, whole};
      const Values in{numbers(f32({2, 4, 3}), List(24, -1)), numbers({Shape{2, 3}, whole}, w.labels), numbers(lengths, w.frames), numbers(lengths, counts)};
      const Attributes attributes{{"blank", 0}, {"zero_infinity", false}};
      const auto refusal = [&](const auto& run) { return message_of<DataError>([&] { run(); }); };
      for (const Variant& v : ctc_loss_def().variants) {
        EXPECT_EQ(refusal([&] { run_variant(ctc_loss_def(), v, in, attributes); }), w.message) << v.name;
      }
      const Value log_probs = leaf(in[0]), losses = ctc_losses(log_probs, in[2], {in[1], in[3]});
      EXPECT_EQ(refusal([&] { read(losses); }), w.message);
      const List loss = read(losses);
      EXPECT_NE(loss[0], 0);
      EXPECT_EQ(loss[1], 0);
      const Value dx = gradient({losses}, {log_probs})[0];
      EXPECT_EQ(refusal([&] { read(dx); }), w.message);
      const List slope = read(dx);
      EXPECT_NE(slope[0], 0);
      for (std::size_t i = 12; i < 24; ++i) EXPECT_EQ(slope[i], 0) << i;
    }
  }
}

TEST(Ctc, the_reference_refuses_lengths_and_labels_out_of_range) {
  const auto session = Session::reference();
  const auto refusal = [&](double label, double frames, double count) {
    const auto whole = [&](const Spec& spec, double value) { return session->tensor(spec, std::span<const double>(List(at(spec.elements()), value))); };
    const Value log_probs = session->tensor(f32({1, 4, 3}), std::span<const double>(List(12, -1)));
    return message_of<DataError>([&] { ctc_losses(log_probs, whole(i64({1}), frames), {whole(i64({1, 2}), label), whole(i64({1}), count)}); });
  };
  EXPECT_EQ(refusal(3, 4, 1), "ctc_loss: label 3 is out of range; accepted: 0..2");
  EXPECT_EQ(refusal(1, 5, 1), "ctc_loss: input length 5 is out of range; accepted: 0..4");
  EXPECT_EQ(refusal(1, 4, -1), "ctc_loss: target length -1 is out of range; accepted: 0..2");
}

TEST(Ctc, a_class_that_cannot_be_has_no_gradient) {
  // PyTorch gives what is no number here.
  const double never = -INFINITY;
  const Value log_probs = leaf(numbers(f32({1, 2, 3}), {0, never, -1, -0.5, -0.7, never}));
  const Value loss = ctc_losses(log_probs, numbers(i64({1}), {2}), {numbers(i64({1, 1}), {1}), numbers(i64({1}), {1})});
  EXPECT_NEAR(read(loss)[0], 0.7, 1e-6);  // blank, then the label
  const List dx = read(gradient({loss}, {log_probs})[0]);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(dx[i], i == 0 || i == 4 ? -1 : 0, 1e-6) << i;
}

TEST(Ctc, second_derivatives_of_samples_without_alignment_are_0) {
  const auto session = Session::reference();
  const auto whole = [&](const Spec& spec, const List& values) { return session->tensor(spec, std::span<const double>(values)); };
  const Value log_probs = leaf(session->tensor(f32({2, 2, 2}), std::span<const double>(List{-1, -0.5, -0.2, -2, -1, -0.5, -0.2, -2})));
  const Value losses = ctc_losses(log_probs, whole(i64({2}), {2, 2}), {whole(i64({2, 2}), {1, 1, 1, 1}), whole(i64({2}), {2, 1})}, {.zero_infinity = true});
  const Value slope = gradient({losses}, {log_probs}, {}, Tape::extend)[0];
  const List second = read(gradient({sum(slope * slope)}, {log_probs})[0]);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(second[i], 0) << i;
  EXPECT_GT(std::abs(second[4]), 0.01);
}

}  // namespace
}  // namespace gemel::testing
