// What samples cannot show of the elementwise operators: NaN, ties, kinks, and what a history keeps.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "engine/core/session.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "tests/support/device/test_device.h"

namespace gemel::testing {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The device and the reference have to agree on each of these.
class Elementwise : public ::testing::TestWithParam<Where> {
 protected:
  Value vector(const std::vector<double>& x) {
    return session->tensor({Shape{static_cast<std::int64_t>(x.size())}, DType::float32}, std::span<const double>(x));
  }
  std::unique_ptr<Session> session = session_on(GetParam());
};

TEST_P(Elementwise, nan_passes_through_relu_clamp_and_maximum) {
  const Value x = vector({kNaN, 1, -2}), y = vector({0, kNaN, -1});
  for (const Value& held : {relu(x), relu6(x), clamp(x, -1, 1)}) EXPECT_TRUE(std::isnan(read(held)[0]));
  for (const Value& best : {maximum(x, y), minimum(x, y)}) {
    EXPECT_TRUE(std::isnan(read(best)[0]));
    EXPECT_TRUE(std::isnan(read(best)[1]));
    EXPECT_FALSE(std::isnan(read(best)[2]));
  }
}

TEST_P(Elementwise, gelu_keeps_its_digits_where_it_is_small) {
  const std::vector<double> at{-5.5, -4, -2, 0, 3};
  const Value x = leaf(vector(at)), y = gelu(x);
  const std::vector<double> got = read(y), slope = read(gradient({y}, {x})[0]);
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double phi = 0.5 * std::erfc(-at[i] / std::numbers::sqrt2);
    const double expected = at[i] * phi, steep = phi + at[i] * std::exp(-at[i] * at[i] / 2) / std::sqrt(2 * std::numbers::pi);
    // OpenCL grants erfc 16 units in the last place, and exp(-15) is that much less exact than its argument: 2e-6 together.
    EXPECT_LE(std::fabs(got[i] - expected), 2e-6 * std::fabs(expected)) << at[i];
    EXPECT_LE(std::fabs(slope[i] - steep), 4e-6 * std::fabs(steep)) << at[i];
  }
}

TEST_P(Elementwise, gelu_tanh_keeps_its_digits_and_is_right_at_the_ends) {
  const std::vector<double> at{-30, -6, -3, -1, 0, 0.5, 4, 30};
  const Value x = leaf(vector(at)), y = gelu_tanh(x);
  const std::vector<double> got = read(y), slope = read(gradient({y}, {x})[0]);
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double c = 2 * std::sqrt(2 / std::numbers::pi), w = c * (at[i] + 0.044715 * at[i] * at[i] * at[i]), s = 1 / (1 + std::exp(-w));
    const double expected = at[i] * s, steep = s + at[i] * s * (1 - s) * c * (1 + 3 * 0.044715 * at[i] * at[i]);
    // exp(-25) is 25 times less exact than its argument, which has 3 roundings. What is below 1e-30 is as good as 0.
    EXPECT_LE(std::fabs(got[i] - expected), 1e-5 * std::fabs(expected) + 1e-30) << at[i];
    EXPECT_LE(std::fabs(slope[i] - steep), 1e-5 * std::fabs(steep) + 1e-30) << at[i];
  }
  const Value ends = leaf(vector({-1e30, 1e30, kNaN}));
  const Value of_ends = gelu_tanh(ends);
  const std::vector<double> values = read(of_ends), slopes = read(gradient({of_ends}, {ends})[0]);
  EXPECT_EQ(values[0], 0);
  EXPECT_NEAR(values[1], 1e30, 1e23);
  EXPECT_NEAR(slopes[0], 0, 1e-5);
  EXPECT_EQ(slopes[1], 1);
  EXPECT_TRUE(std::isnan(values[2]) && std::isnan(slopes[2]));
}

TEST_P(Elementwise, is_finite_tells_infinities_and_nan) {
  EXPECT_EQ(read(is_finite(vector({1, kNaN, kInfinity, -kInfinity, 0}))), (std::vector<double>{1, 0, 0, 0, 1}));
}

TEST_P(Elementwise, casts_truncate_and_bool_is_not_zero) {
  const Value x = vector({-2.7, -0.5, 0, 0.9, 3.5});
  EXPECT_EQ(read(cast(x, DType::int32)), (std::vector<double>{-2, 0, 0, 0, 3}));
  EXPECT_EQ(read(cast(x, DType::int64)), (std::vector<double>{-2, 0, 0, 0, 3}));
  EXPECT_EQ(read(cast(x, DType::boolean)), (std::vector<double>{1, 1, 0, 1, 1}));
}

TEST_P(Elementwise, equal_elements_share_the_gradient_of_maximum) {
  const Value a = leaf(vector({1, 2, 3})), b = leaf(vector({1, 5, 0}));
  const Values g = gradient({maximum(a, b)}, {a, b});
  EXPECT_EQ(read(g[0]), (std::vector<double>{0.5, 0, 1}));
  EXPECT_EQ(read(g[1]), (std::vector<double>{0.5, 1, 0}));
}

TEST_P(Elementwise, power_has_finite_gradients_at_zero) {
  const Value a = leaf(vector({0, 0, 2})), b = leaf(vector({0, 2, 0}));
  const Values g = gradient({power(a, b)}, {a, b});
  EXPECT_EQ(read(g[0]), (std::vector<double>{0, 0, 0}));
  const std::vector<double> of_b = read(g[1]);
  EXPECT_EQ(of_b[0], 0);
  EXPECT_EQ(of_b[1], 0);
  EXPECT_NEAR(of_b[2], std::log(2.0), 1e-6);  // float32
}

TEST_P(Elementwise, relu_keeps_its_output_alone) {
  const Value x = leaf(vector({-1, 2}));
  const Value y = relu(x);
  EXPECT_FALSE(y.node()->inputs[0].value);
  EXPECT_TRUE(y.node()->outputs[0].value);
}

TEST_P(Elementwise, sigmoid_and_silu_hold_at_both_ends) {
  const Value x = vector({-200, 200});
  EXPECT_EQ(read(sigmoid(x)), (std::vector<double>{GetParam() == Where::reference ? 1 / (1 + std::exp(200.0)) : 0, 1}));
  const std::vector<double> slope = read(silu_gradient(vector({1, 1}), x));
  EXPECT_NEAR(slope[0], 0, 1e-30);
  EXPECT_EQ(slope[1], 1);
}

std::string place(const ::testing::TestParamInfo<Where>& info) { return info.param == Where::reference ? "reference" : "device"; }
INSTANTIATE_TEST_SUITE_P(sessions, Elementwise, ::testing::Values(Where::reference, Where::device), place);

}  // namespace
}  // namespace gemel::testing
