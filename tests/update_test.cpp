// Optimizers' updates against steps worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "tests/test_device.h"

namespace gemel::testing {
namespace {

constexpr double kFloat = 1e-6;  // relative error of a few float32 operations

Value vector_of(const std::vector<double>& values) {
  return test_session().tensor(f32({static_cast<std::int64_t>(values.size())}), std::span<const double>(values));
}
double first(const Value& v) { return read(v)[0]; }

TEST(Update, sgd_joins_the_weight_decay_to_the_gradient) {
  const Value p = vector_of({2});
  sgd_update(p, vector_of({3}), vector_of({0.5}), 0.25);
  EXPECT_NEAR(first(p), 2 - 0.5 * (3 + 0.25 * 2), kFloat);
}

TEST(Update, momentum_gathers_velocity_and_nesterov_looks_ahead) {
  for (bool nesterov : {false, true}) {
    const Value p = vector_of({1}), v = vector_of({0});
    for (int step = 0; step < 2; ++step) momentum_update(p, v, vector_of({1}), vector_of({0.1}), 0.5, 0, nesterov);
    // Velocities 1 and 1.5; Nesterov steps along 1 + 0.5 * 1 and 1 + 0.5 * 1.5.
    EXPECT_NEAR(first(p), nesterov ? 1 - 0.1 * (1.5 + 1.75) : 1 - 0.1 * (1 + 1.5), kFloat);
    EXPECT_NEAR(first(v), 1.5, kFloat);
  }
}

TEST(Update, adams_first_step_has_the_length_of_the_rate) {
  for (double g : {-7.0, 1e-3, 40.0}) {
    const Value p = vector_of({1}), m = vector_of({0}), v = vector_of({0});
    adam_update(p, m, v, vector_of({g}), vector_of({0.01, 1 - 0.9, 1 - 0.999}), {});
    EXPECT_NEAR(first(p), 1 - std::copysign(0.01, g), 1e-6);  // eps / |g| of 0.01 besides rounding
    EXPECT_NEAR(first(m), 0.1 * g, kFloat * std::fabs(g));
    EXPECT_NEAR(first(v), 0.001 * g * g, kFloat * g * g);
  }
}

TEST(Update, adamw_shrinks_the_parameter_apart_from_the_gradient) {
  const Value p = vector_of({2}), m = vector_of({0}), v = vector_of({0});
  adam_update(p, m, v, vector_of({0}), vector_of({0.1, 0.1, 0.001}), {.weight_decay = 0.5, .decoupled = true});
  EXPECT_NEAR(first(p), 2 * (1 - 0.1 * 0.5), kFloat);
  EXPECT_EQ(first(m), 0);
}

TEST(Update, rmsprop_without_momentum_needs_no_velocity) {
  const Value p = vector_of({1}), v = vector_of({4}), with = vector_of({1}), square = vector_of({4}), velocity = vector_of({2});
  rmsprop_update(p, v, {}, vector_of({4}), vector_of({0.1}), 0.5, 0, 0, 0);
  EXPECT_NEAR(first(v), 0.5 * 4 + 0.5 * 16, kFloat * 10);
  EXPECT_NEAR(first(p), 1 - 0.1 * 4 / std::sqrt(10.0), kFloat);
  rmsprop_update(with, square, velocity, vector_of({4}), vector_of({0.1}), 0.5, 0, 0.5, 0);
  EXPECT_NEAR(first(velocity), 0.5 * 2 + 4 / std::sqrt(10.0), kFloat * 3);
  EXPECT_NEAR(first(with), 1 - 0.1 * (1 + 4 / std::sqrt(10.0)), kFloat);
}

TEST(Update, writes_a_parameter_that_wants_a_gradient_and_bumps_its_version) {
  const Value p = leaf(vector_of({1, 2}));
  const auto version = p.storage()->version;
  sgd_update(p, vector_of({1, 1}), vector_of({1}), 0);
  EXPECT_EQ(read(p), (std::vector<double>{0, 1}));
  EXPECT_EQ(p.storage()->version, version + 1);
}

}  // namespace
}  // namespace gemel::testing
