// Convolution along time: PyTorch's layers from their files.
#include <gtest/gtest.h>

#include <array>

#include "engine/base/error.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/state/file_layout.h"
#include "frontends/nn/state/state_dict.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/operators/expected_values.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::nn {
namespace {

using namespace gemel::testing;

struct Conv1dCase {
  const char* name;
  std::int64_t in, out;
  Convolution1dOptions options;
};
/// Those of tests/data/conv1d/make.py.
std::vector<Conv1dCase> conv1d_cases() {
  return {{"plain", 3, 4, {.kernel = 5}},
          {"strided", 4, 6, {.geometry = {.stride = 2, .padding = 1}}},
          {"dilated", 2, 5, {.geometry = {.padding = 4, .dilation = 4}}},
          {"grouped", 6, 4, {.geometry = {.padding = 2, .groups = 2}, .bias = Bias::no}},
          {"depthwise", 8, 8, {.kernel = 7, .geometry = {.padding = 3, .groups = 8}}}};
}

/// Sums of up to 40 products in float32, and of the loaded numbers as they are.
constexpr double kError = 2e-6;

void expect_pytorchs(Session& session, const Conv1dCase& c) {
  SCOPED_TRACE(c.name);
  const Expected expected("conv1d/expected.safetensors");
  const auto name = [&](const std::string& what) { return c.name + ("." + what); };
  const bool biased = c.options.bias == Bias::yes;
  Conv1d layer(c.in, c.out, c.options);
  std::vector<NamedTensor> state;
  for (const char* part : {"weight", "bias"})
    if (expected.has(name(part))) state.push_back({part, expected.named(name(part)).spec, expected.named(name(part)).data});
  EXPECT_EQ(state.size(), biased ? 2u : 1u);
  EXPECT_TRUE(load_state_dict(layer, session, state).fresh.empty());
  // Files and gradients here are [N, C, T], as PyTorch's.
  const auto as_file = [](const Value& v) { return read(transpose(v, {0, 2, 1})); };
  const Value x = leaf(transpose(expected.tensor(session, name("x")), {0, 2, 1})), y = layer(x);
  EXPECT_LE(relative_error(as_file(y), expected.numbers(name("y"))), kError);
  Values leaves{x, layer.weight().tensor()};
  if (biased) leaves.push_back(layer.bias()->tensor());
  const Values found = gradient({y}, leaves, {transpose(expected.tensor(session, name("dy")), {0, 2, 1})});
  EXPECT_LE(relative_error(as_file(found[0]), expected.numbers(name("dx"))), kError);
  EXPECT_LE(relative_error(read(transpose(found[1], {2, 1, 0})), expected.numbers(name("dweight"))), kError);
  if (biased) {
    EXPECT_LE(relative_error(read(found[2]), expected.numbers(name("dbias"))), kError);
  }
}

TEST(Conv1d, gives_pytorchs_outputs_and_gradients_from_its_weights) {
  const auto reference = Session::reference();
  for (const Conv1dCase& c : conv1d_cases()) {
    expect_pytorchs(*reference, c);
    expect_pytorchs(test_session(), c);
  }
}

TEST(Conv1d, weights_are_saved_as_they_were_loaded) {
  const auto session = Session::reference();
  const Expected expected("conv1d/expected.safetensors");
  Conv1d layer(4, 6, {.geometry = {.stride = 2, .padding = 1}});
  const NamedTensor &weight = expected.named("strided.weight"), &bias = expected.named("strided.bias");
  load_state_dict(layer, *session, std::array{NamedTensor{"weight", weight.spec, weight.data}, NamedTensor{"bias", bias.spec, bias.data}});
  const auto state = state_dict(layer);
  ASSERT_EQ(state.size(), 2u);
  EXPECT_EQ(state[0].name, "weight");
  EXPECT_EQ(state[0].spec, f32({6, 4, 3}));
  EXPECT_TRUE(std::ranges::equal(state[0].bytes, weight.data));
}

TEST(Conv1d, starts_within_pytorchs_bound) {
  const auto session = Session::reference();
  Conv1d layer(8, 64, {.kernel = 5, .geometry = {.groups = 2}});
  layer.materialise(*session);
  double largest = 0;
  for (const double w : read(layer.weight().tensor())) largest = std::max(largest, std::abs(w));
  EXPECT_LE(largest, 1 / std::sqrt(20.0));  // 5 taps of 4 channels
  EXPECT_GT(largest, 0.95 / std::sqrt(20.0));
}

TEST(Conv1d, describes_itself_and_refuses_what_does_not_fit) {
  EXPECT_EQ(Conv1d(6, 4, {.geometry = {.stride = 2, .padding = 1, .dilation = 3, .groups = 2}, .bias = Bias::no}).describe(),
            "Conv1d(6, 4, kernel 3, stride 2, padding 1, dilation 3, groups 2, no bias)");
  EXPECT_EQ(Conv1d(6, 4, {.kernel = 1}).describe(), "Conv1d(6, 4, kernel 1)");
  EXPECT_EQ(message_of<ShapeError>([] { Conv1d(6, 8, {.geometry = {.groups = 4}}); }),
            "Conv1d: 4 groups given for 6 input and 8 output channels; accepted: a divisor of both");
  const auto session = Session::reference();
  const Value x = full(*session, f32({2, 3}), 0), w = full(*session, f32({1, 3, 4}), 0);
  EXPECT_EQ(message_of<ShapeError>([&] { conv1d(x, w); }), "conv1d: x is [2, 3], of rank 2; accepted: rank 3");
  EXPECT_EQ(message_of<ShapeError>([&] { conv1d(w, x); }), "conv1d: w is [2, 3], of rank 2; accepted: rank 3");
}

TEST(Conv1d, refusals_are_in_its_own_words) {
  const auto session = Session::reference();
  const auto zeros = [&](const Spec& spec) { return full(*session, spec, 0); };
  const auto refusal = [&](const Spec& x, const Spec& w, const Convolution1d& c = {}) {
    return message_of<ShapeError>([&] { conv1d(zeros(x), zeros(w), c); });
  };
  EXPECT_EQ(refusal(i32({2, 9, 3}), f32({1, 3, 4})), "conv1d: x is int32 [2, 9, 3]; accepted: float32");
  EXPECT_EQ(refusal(f32({2, 9, 3}), i32({1, 3, 4})), "conv1d: float32 [2, 9, 3] and int32 [1, 3, 4] differ in element type; accepted: equal types, cast one");
  EXPECT_EQ(refusal(f32({2, 3, 9}), f32({1, 3, 4})),
            "conv1d: x [2, 3, 9] has 9 channels, its last axis, w [1, 3, 4] takes 3; accepted: x [N, T, 3], which transpose(x, {0, 2, 1}) makes of [N, C, T]");
  EXPECT_EQ(refusal(f32({2, 9, 5}), f32({1, 3, 4}), {.groups = 2}),
            "conv1d: x [2, 9, 5] has 5 channels, its last axis, w [1, 3, 4] takes 6 in 2 groups; accepted: x [N, T, 6]");
  EXPECT_EQ(refusal(f32({2, 9, 6}), f32({1, 2, 4}), {.groups = 3}), "conv1d: 4 filters of w [1, 2, 4] are not divisible by 3 groups; accepted: a divisor");
  EXPECT_EQ(refusal(f32({2, 9, 3}), f32({4, 3, 4}), {.padding = 1, .dilation = 4}),
            "conv1d: the window of w [4, 3, 4] spans 13, the padded x [2, 9, 3] has 11; accepted: a window of 1 up to that");
  EXPECT_EQ(refusal(f32({2, 9, 3}), f32({0, 3, 4})),
            "conv1d: the window of w [0, 3, 4] spans 0, the padded x [2, 9, 3] has 9; accepted: a window of 1 up to that");
  EXPECT_EQ(refusal(f32({2, 9, 3}), f32({1, 3, 4}), {.stride = 0}), "conv1d: stride is 0; accepted: at least 1");
  EXPECT_EQ(refusal(f32({2, 9, 3}), f32({1, 3, 4}), {.padding = -1}), "conv1d: padding is -1; accepted: at least 0");
  EXPECT_EQ(refusal(f32({2, 9, 3}), f32({1, 3, 4}), {.groups = 0}), "conv1d: groups is 0; accepted: at least 1");
  const NameScope scope(*session, "encoder");
  EXPECT_EQ(refusal(f32({2, 9, 3}), f32({1, 3, 4}), {.stride = 0}), "encoder: conv1d: stride is 0; accepted: at least 1");
}

}  // namespace
}  // namespace gemel::nn
