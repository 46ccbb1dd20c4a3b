// The pass that computes normalisations again where the backward pass reads them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/gradients/autograd.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/ops.h"
#include "engine/passes/passes.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

constexpr std::int64_t kChannels = 8;

/// A convolution, its normalisation, what `after` makes of it and a second convolution; and the gradients of all parameters.
class Rematerialisation : public ::testing::Test {
 protected:
  using After = std::function<Value(const Value&)>;

  Rematerialisation() {
    std::mt19937 random(7);
    const auto fill = [&](const Spec& spec, double from, double to) {
      std::vector<double> numbers(at(spec.elements()));
      for (double& v : numbers) v = static_cast<float>(std::uniform_real_distribution<double>(from, to)(random));
      return session_.tensor(spec, std::span<const double>(numbers));
    };
    const Spec kernel = f32({3, 3, kChannels, kChannels}), channels = f32({kChannels});
    x_ = fill(f32({2, 6, 6, kChannels}), -2, 2);
    for (const Spec& spec : {kernel, channels, channels, kernel}) parameters_.push_back(leaf(fill(spec, 0.2, 1)));
    mean_ = full(session_, channels, 0), var_ = full(session_, channels, 1), batches_ = session_.tensor(i64({}), std::vector<double>{0});
  }

  Values step(const Values& in, const After& after) const {
    const Value made = conv2d(in[0], parameters_[0], {.padding = {1, 1}});
    const Value normal = batch_norm(made, {parameters_[1], parameters_[2]}, {mean_, var_, batches_});
    const Value loss = sum(square(conv2d(after(normal), parameters_[3], {.padding = {1, 1}})));
    Values out = gradient({loss}, parameters_);
    out.push_back(loss);
    return out;
  }
  Program optimised(const After& after, const PassNames& names) {
    return optimise(session_, capture(session_, {f32({2, 6, 6, kChannels})}, [&](const Values& in) { return step(in, after); }), names);
  }
  std::vector<std::vector<double>> results(const Program& program) {
    std::vector<std::vector<double>> out;
    for (const Value& v : Executor(session_, std::make_shared<Program>(program)).run({x_})) out.push_back(read(v));
    return out;
  }
  void expect_same_results(const After& after, const Program& program) {
    const auto expected = results(optimised(after, {})), found = results(program);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t k = 0; k < found.size(); ++k) {
      double largest = 0;  // sums of 72 products of float32 twice: some 100 roundings of 6e-8
      for (const double v : expected[k]) largest = std::max(largest, std::abs(v));
      for (std::size_t i = 0; i < found[k].size(); ++i) ASSERT_NEAR(found[k][i], expected[k][i], 1e-5 * largest) << "result " << k << ", element " << i;
    }
  }

  Session& session_ = test_session();
  Value x_, mean_, var_, batches_;
  Values parameters_;
};

std::ptrdiff_t readers_of(const Program& program, const Program::Use& use) {
  return std::count_if(program.code.begin(), program.code.end(), [&](const auto& step) {
    return std::any_of(step.inputs.begin(), step.inputs.end(), [&](const auto& u) { return u.slot == use.slot; });
  });
}
const Program::Instruction& only(const Program& program, const std::string& name) {
  const auto found = std::find_if(program.code.begin(), program.code.end(), [&](const auto& step) { return step.op->name == name; });
  if (found == program.code.end()) throw InternalError("no " + name + " in " + to_string(program));
  return *found;
}

TEST_F(Rematerialisation, the_backward_pass_reads_the_normalisations_input) {
  const After after = [](const Value& v) { return silu(v); };
  const Program before = optimised(after, {"dead-code"}), relieved = optimised(after, {"dead-code", "rematerialisation"});
  EXPECT_EQ(readers_of(before, only(before, "batch_norm").outputs[0]), 2) << "silu and its gradient";
  EXPECT_EQ(readers_of(relieved, only(relieved, "batch_norm").outputs[0]), 1) << to_string(relieved);
  EXPECT_EQ(relieved.code.size(), before.code.size() + 4) << "the mean, the deviation, gamma and beta";
  expect_same_results(after, relieved);
  expect_same_results(after, optimised(after, parse_passes("all")));
}

TEST_F(Rematerialisation, an_activation_that_is_scaled_by_what_is_made_of_it_waits_no_longer) {
  const After after = [](const Value& v) {
    const Value activated = silu(v), pooled = mean(activated, {1, 2});
    return activated * sigmoid(reshape(matmul(pooled, full(v.session(), f32({kChannels, 1}), 0.3)), std::vector<std::int64_t>{2, 1, 1, 1}));
  };
  const Program relieved = optimised(after, {"dead-code", "rematerialisation"});
  EXPECT_EQ(readers_of(relieved, only(relieved, "silu").outputs[0]), 1) << "the mean alone: " << to_string(relieved);
  expect_same_results(after, relieved);
  expect_same_results(after, optimised(after, parse_passes("all")));
}

TEST_F(Rematerialisation, neighbours_share_what_is_there) {
  const After after = [](const Value& v) { return v * sigmoid(v); };
  const Program before = optimised(after, {"dead-code"}), relieved = optimised(after, {"dead-code", "rematerialisation"});
  const auto normal = only(relieved, "batch_norm").outputs[0];
  EXPECT_EQ(readers_of(relieved, normal), 2) << "both of the forward pass: " << to_string(relieved);
  EXPECT_GT(readers_of(before, only(before, "batch_norm").outputs[0]), 2);
  expect_same_results(after, relieved);
}

TEST_F(Rematerialisation, what_a_product_reads_later_is_kept) {
  const After after = [](const Value& v) { return v; };  // the weight gradient of the second convolution reads it
  const Program before = optimised(after, {"dead-code"}), relieved = optimised(after, {"dead-code", "rematerialisation"});
  EXPECT_EQ(to_string(relieved), to_string(before));
}

TEST_F(Rematerialisation, a_late_reader_may_be_an_activation_itself) {
  const After after = [](const Value& v) { return abs(v); };  // its gradient takes the sign
  const Program relieved = optimised(after, {"dead-code", "rematerialisation"});
  EXPECT_EQ(readers_of(relieved, only(relieved, "batch_norm").outputs[0]), 1) << to_string(relieved);
  expect_same_results(after, relieved);
}

TEST_F(Rematerialisation, what_is_asked_for_is_kept) {
  const auto body = [&](const Values& in) -> Values {
    Value normal;
    Values out = step(in, [&](const Value& v) { return silu(normal = v); });
    out.push_back(normal);
    return out;
  };
  const Specs specs{f32({2, 6, 6, kChannels})};
  const Program before = optimise(session_, capture(session_, specs, body), {"dead-code"});
  EXPECT_EQ(to_string(optimise(session_, capture(session_, specs, body), {"dead-code", "rematerialisation"})), to_string(before));
}

TEST_F(Rematerialisation, what_is_written_in_between_keeps_its_readers) {
  const Value beta = full(session_, f32({kChannels}), 0.5);
  const After its_parameter = [&](const Value& v) {
    const Value out = silu(v);
    assign(parameters_[2].detached(), beta);
    return out;
  };
  const After itself = [](const Value& v) {
    const Value same_storage = v.detached();
    assign(same_storage, square(same_storage));
    return silu(v);
  };
  for (const After& after : {its_parameter, itself}) {
    const Program before = optimised(after, {"dead-code"});
    EXPECT_EQ(to_string(optimised(after, {"dead-code", "rematerialisation"})), to_string(before));
  }
}

}  // namespace
}  // namespace gemel::testing
