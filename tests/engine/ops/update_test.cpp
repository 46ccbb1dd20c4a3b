// Optimizers' updates against steps worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "engine/parameters/parameter_slab.h"
#include "tests/support/device/test_device.h"

namespace gemel::testing {
namespace {

constexpr double kFloat = 1e-6;  // relative error of a few float32 operations

Value vector_of(const std::vector<double>& values) {
  return test_session().tensor(f32({static_cast<std::int64_t>(values.size())}), std::span<const double>(values));
}
double first(const Value& v) { return read(v)[0]; }

/// An update of one page, of the only group.
Update update_of(const Value& parameters, const std::vector<double>& gradients, const std::vector<double>& hyper) {
  const double page[2] = {0, static_cast<double>(parameters.elements())};
  return {parameters, vector_of(gradients), reshape(vector_of(hyper), Shape{1, std::ssize(hyper)}), test_session().tensor(i32({1, 2}), page)};
}

TEST(Update, sgd_joins_the_weight_decay_to_the_gradient) {
  const Value p = vector_of({2});
  sgd_update(update_of(p, {3}, {0.5, 0.25}));
  EXPECT_NEAR(first(p), 2 - 0.5 * (3 + 0.25 * 2), kFloat);
}

TEST(Update, momentum_gathers_velocity_and_nesterov_looks_ahead) {
  for (bool nesterov : {false, true}) {
    const Value p = vector_of({1}), v = vector_of({0});
    for (int step = 0; step < 2; ++step) momentum_update(update_of(p, {1}, {0.1, 0}), v, 0.5, nesterov);
    // Velocities 1 and 1.5; Nesterov steps along 1 + 0.5 * 1 and 1 + 0.5 * 1.5.
    EXPECT_NEAR(first(p), nesterov ? 1 - 0.1 * (1.5 + 1.75) : 1 - 0.1 * (1 + 1.5), kFloat);
    EXPECT_NEAR(first(v), 1.5, kFloat);
  }
}

TEST(Update, adams_first_step_has_the_length_of_the_rate) {
  for (double g : {-7.0, 1e-3, 40.0}) {
    const Value p = vector_of({1}), m = vector_of({0}), v = vector_of({0});
    adam_update(update_of(p, {g}, {0.01, 0, 1 - 0.9, 1 - 0.999}), m, v, {});
    EXPECT_NEAR(first(p), 1 - std::copysign(0.01, g), 1e-6);  // eps / |g| of 0.01 besides rounding
    EXPECT_NEAR(first(m), 0.1 * g, kFloat * std::fabs(g));
    EXPECT_NEAR(first(v), 0.001 * g * g, kFloat * g * g);
  }
}

TEST(Update, adamw_shrinks_the_parameter_apart_from_the_gradient) {
  const Value p = vector_of({2}), m = vector_of({0}), v = vector_of({0});
  adam_update(update_of(p, {0}, {0.1, 0.5, 0.1, 0.001}), m, v, {.decoupled = true});
  EXPECT_NEAR(first(p), 2 * (1 - 0.1 * 0.5), kFloat);
  EXPECT_EQ(first(m), 0);
}

TEST(Update, rmsprop_without_momentum_needs_no_velocity) {
  const Value p = vector_of({1}), v = vector_of({4}), with = vector_of({1}), square = vector_of({4}), velocity = vector_of({2});
  rmsprop_update(update_of(p, {4}, {0.1, 0}), v, {}, {.alpha = 0.5, .eps = 0});
  EXPECT_NEAR(first(v), 0.5 * 4 + 0.5 * 16, kFloat * 10);
  EXPECT_NEAR(first(p), 1 - 0.1 * 4 / std::sqrt(10.0), kFloat);
  rmsprop_update(update_of(with, {4}, {0.1, 0}), square, velocity, {.alpha = 0.5, .eps = 0, .momentum = 0.5});
  EXPECT_NEAR(first(velocity), 0.5 * 2 + 4 / std::sqrt(10.0), kFloat * 3);
  EXPECT_NEAR(first(with), 1 - 0.1 * (1 + 4 / std::sqrt(10.0)), kFloat);
}

TEST(Update, writes_a_parameter_that_wants_a_gradient_and_bumps_its_version) {
  const Value p = leaf(vector_of({1, 2}));
  const auto version = version_of(p);
  sgd_update(update_of(p, {1, 1}, {1, 0}));
  EXPECT_EQ(read(p), (std::vector<double>{0, 1}));
  EXPECT_EQ(version_of(p), version + 1);
}

TEST(Update, pages_without_a_group_and_what_lies_behind_the_elements_stay) {
  const std::int64_t page = Slab::kPageElements, n = 3 * page;
  const Value p = full(test_session(), f32({n}), 1), g = full(test_session(), f32({n}), 1);
  const double pages[] = {1, 10, -1, double(page), 0, double(page)}, hyper[] = {0.5, 0, 0.25, 0};
  sgd_update({p, g, test_session().tensor(f32({2, 2}), hyper), test_session().tensor(i32({3, 2}), pages)});
  const auto got = read(p);
  EXPECT_EQ(got[9], 0.75) << "the second group's rate";
  EXPECT_EQ(got[10], 1) << "padding";
  EXPECT_EQ(got[page], 1) << "no group";
  EXPECT_EQ(got[2 * page], 0.5);
  EXPECT_EQ(got.back(), 0.5);
}

}  // namespace
}  // namespace gemel::testing
