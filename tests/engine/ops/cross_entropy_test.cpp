// Cross-entropy: closed forms, PyTorch's label smoothing, and labels that are out of range.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "engine/base/error.h"
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

Value numbers(Session& session, const Spec& spec, const std::vector<double>& values) { return session.tensor(spec, std::span<const double>(values)); }

TEST(CrossEntropy, of_equal_logits_is_the_logarithm_of_the_number_of_classes) {
  Session& session = test_session();
  for (double smoothing : {0.0, 0.3}) {
    const Value loss = cross_entropy(numbers(session, f32({2, 4}), std::vector<double>(8, 100.0)), numbers(session, i64({2}), {0, 3}), smoothing);
    EXPECT_NEAR(read(loss)[0], std::log(4.0), 1e-6);  // a few units in float32's last place
  }
}

TEST(CrossEntropy, does_not_overflow_for_large_logits) {
  Session& session = test_session();
  const Value logits = numbers(session, f32({1, 3}), {1000, 0, -1000});
  EXPECT_EQ(read(cross_entropy(logits, numbers(session, i32({1}), {0})))[0], 0);
  EXPECT_EQ(read(cross_entropy(logits, numbers(session, i32({1}), {2})))[0], 2000);
}

TEST(CrossEntropy, smooths_labels_and_shares_as_pytorch_does) {
  const Expected expected("losses/smoothing.safetensors");
  const auto reference = Session::reference();
  for (Session* const session : {reference.get(), &test_session()})
    for (const char* target : {"labels", "shares"})
      for (const double smoothing : {0.0, 0.1, 1.0}) {
        const std::string name = fmt::format("{} {:.1f} ", target, smoothing);
        const Value logits = leaf(expected.tensor(*session, "logits")), loss = cross_entropy(logits, expected.tensor(*session, target), smoothing);
        const double error = session == reference.get() ? 2e-7 : 1e-6;  // stored in float32; sums of nine exponentials and logarithms in it
        EXPECT_LE(relative_error(read(loss), expected.numbers(name + "loss")), error) << name;
        EXPECT_LE(relative_error(read(gradient({loss}, {logits})[0]), expected.numbers(name + "gradient")), error) << name;
      }
}

/// What reading says of a label out of range.
std::string refusal(const Value& value) {
  return message_of<DataError>([&] { read(value); });
}

TEST(CrossEntropy, a_label_out_of_range_counts_nothing_and_is_told_by_the_next_read) {
  Session& session = test_session();
  const Value logits = leaf(numbers(session, f32({3, 2}), {0, 0, 5, 1, 0, 0}));
  for (double bad : {-1.0, 2.0}) {
    const Value labels = numbers(session, i64({3}), {0, bad, 1});
    const Specs in{logits.spec(), labels.spec()}, out{f32({})};
    const Attributes attributes{{"smoothing", 0.0}, {"mean", true}, {"labelled_only", false}};
    const Problem problem{cross_entropy_def(), attributes, in, out};
    for (const Variant& variant : cross_entropy_def().variants) {
      const Value loss = session.empty(out[0]);
      launch(session, variant, problem, std::array{region_of(logits), region_of(labels)}, std::array{region_of(loss)});
      EXPECT_EQ(refusal(loss), fmt::format("an index or label {} is out of range; accepted: 0..1", bad)) << variant.name;
      EXPECT_NEAR(read(loss)[0], 2 * std::log(2.0) / 3, 1e-6) << variant.name;
    }
    const Value wrong = gradient({cross_entropy(logits, labels)}, {logits})[0];
    EXPECT_NE(refusal(wrong), "");
    const std::vector<double> dx = read(wrong);
    EXPECT_EQ(dx[2], 0);
    EXPECT_EQ(dx[3], 0);
    EXPECT_NEAR(dx[0], -0.5 / 3, 1e-7);
  }
}

TEST(CrossEntropy, of_labelled_rows_leaves_out_labels_below_0_and_no_others) {
  Session& session = test_session();
  const Value logits = leaf(numbers(session, f32({3, 2}), {0, 0, 5, 1, 0, 0}));
  const Value loss = cross_entropy_of_labelled(logits, numbers(session, i64({3}), {0, -1, 1}));
  EXPECT_NEAR(read(loss)[0], 2 * std::log(2.0), 1e-6) << "a sum";
  EXPECT_EQ(read(gradient({loss}, {logits})[0]), (std::vector<double>{-0.5, 0.5, 0, 0, 0.5, -0.5}));
  EXPECT_EQ(refusal(cross_entropy_of_labelled(logits, numbers(session, i64({3}), {0, 2, 1}))), "an index or label 2 is out of range; accepted: 0..1");
  EXPECT_EQ(read(cross_entropy_of_labelled(logits, numbers(session, i64({3}), {-1, -1, -1})))[0], 0);
}

TEST(CrossEntropy, the_reference_refuses_a_label_out_of_range) {
  const auto session = Session::reference();
  EXPECT_THROW(cross_entropy(numbers(*session, f32({1, 2}), {0, 0}), numbers(*session, i32({1}), {2})), DataError);
}

}  // namespace
}  // namespace gemel::testing
