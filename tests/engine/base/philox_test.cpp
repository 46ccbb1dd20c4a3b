// Philox: known answers, the same bits on host and device, and draws that do not depend on how a batch is split.
#include "engine/base/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/base/numbers.h"
#include "engine/ops/ops.h"
#include "tests/support/device/test_device.h"

namespace gemel::testing {
namespace {

// Source: Random123 1.14, tests/kat_vectors, philox4x32 with 10 rounds.
static_assert(philox({0, 0, 0, 0}, {0, 0}) == PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) == PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

Value state_of(Session& session, const DrawState& s) {
  const std::int64_t numbers[4] = {s.seed, s.step, s.first_sample, s.fold};
  return session.tensor(i64({4}), std::as_bytes(std::span(numbers)));
}
std::vector<double> uniform_from(Session& session, const DrawState& state, const Shape& shape, std::int64_t stream) {
  return read(apply(session, random_uniform_def(), {state_of(session, state)},
                    {{"shape", shape}, {"low", 0.0}, {"high", 1.0}, {"stream", stream}, {"sample_axis", std::int64_t{0}}})[0]);
}

TEST(DevicePhilox, of_zeros_draws_the_known_answer) {
  const std::vector<double> got = uniform_from(test_session(), {0, 0, 0, 0}, {1, 4}, 0);
  const PhiloxCounter words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(got[k], double{unit_float(words[k])});
}

TEST(DevicePhilox, device_and_host_draw_the_same_bits) {
  const auto reference = Session::reference();
  const DrawState state{0x123456789abcdef0, 77, 0xfffffffe, 0x0fedcba987654321};  // the sample's number wraps at 32 bits
  for (const Shape& shape : {Shape{5, 7, 3}, {3, 9000}, {66}})
    EXPECT_EQ(uniform_from(test_session(), state, shape, 0xdeadbeef), uniform_from(*reference, state, shape, 0xdeadbeef));
  const std::int64_t fold = 0x0fedcba987654321;
  for (std::int64_t count : {0, 1, 1000}) {
    const std::int64_t numbers[1] = {count};
    Value folded = fold_in(state_of(test_session(), state), test_session().tensor(i64({}), std::as_bytes(std::span(numbers))));
    std::int64_t got[4];
    std::memcpy(got, read_bytes(folded).data(), sizeof got);
    EXPECT_EQ(got[0], state.seed);
    EXPECT_EQ(got[2], state.first_sample);
    EXPECT_EQ(static_cast<std::uint64_t>(got[3]), fold_hash(fold, static_cast<std::uint64_t>(count) + 1));
  }
}

TEST(DevicePhilox, parts_of_a_batch_draw_what_the_whole_draws) {
  const std::vector<double> whole = uniform_from(test_session(), {5, 2, 10, 0}, {6, 11}, 3);
  std::vector<double> parts = uniform_from(test_session(), {5, 2, 10, 0}, {2, 11}, 3);
  const std::vector<double> rest = uniform_from(test_session(), {5, 2, 12, 0}, {4, 11}, 3);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, whole);
}

TEST(DevicePhilox, samples_from_anywhere_draw_what_they_draw_in_the_whole_batch) {
  Session session(shared_test_device(), 5);
  const auto drawn = [&session](const Shape& shape, int sample_axis) {  // of the state's next stream, the first of its step
    return read(random_uniform(session, shape, 0, 1, sample_axis));
  };
  session.begin_random_step(2, 10);
  const std::vector<double> whole = drawn({6, 11}, 0);
  const std::vector<std::int64_t> places{15, 10, 12};
  session.begin_random_step(2, places);
  const std::vector<double> some = drawn({3, 11}, 0);
  for (std::size_t r = 0; r < places.size(); ++r)
    for (std::size_t i = 0; i < 11; ++i) EXPECT_EQ(some[11 * r + i], whole[11 * at(places[r] - 10) + i]);
}

TEST(DevicePhilox, the_samples_axis_may_be_any_or_none) {
  Session session(shared_test_device(), 5);
  session.begin_random_step(1, 3);
  const std::vector<double> first = read(random_uniform(session, {3, 5, 8}, 0, 1, 0));
  session.begin_random_step(1, 3);
  const std::vector<double> second = read(random_uniform(session, {5, 3, 8}, 0, 1, 1));
  for (std::size_t t = 0; t < 5; ++t)
    for (std::size_t s = 0; s < 3; ++s)
      for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(second[(t * 3 + s) * 8 + i], first[(s * 5 + t) * 8 + i]);
  const auto of_none = [&session](std::int64_t first_sample) {
    session.begin_random_step(1, first_sample);
    return read(random_uniform(session, {3, 5}, 0, 1, kNoSampleAxis));
  };
  EXPECT_EQ(of_none(3), of_none(7)) << "what belongs to no sample is the same wherever the batch lies";
}

TEST(DevicePhilox, seed_step_stream_and_fold_each_change_the_draw) {
  const std::vector<double> base = uniform_from(test_session(), {1, 1, 0, 1}, {1, 8}, 1);
  EXPECT_NE(uniform_from(test_session(), {2, 1, 0, 1}, {1, 8}, 1), base);
  EXPECT_NE(uniform_from(test_session(), {1, 2, 0, 1}, {1, 8}, 1), base);
  EXPECT_NE(uniform_from(test_session(), {1, 1, 0, 2}, {1, 8}, 1), base);
  EXPECT_NE(uniform_from(test_session(), {1, 1, 0, 1}, {1, 8}, 2), base);
}

TEST(Random, normal_numbers_have_their_moments) {
  Session session(shared_test_device(), 3);
  constexpr std::int64_t n = 40000;
  const std::vector<double> x = read(random_normal(session, {4, n / 4}, 1, 2));
  double mean = 0, square = 0, fourth = 0;
  for (double v : x) mean += v / n;
  for (double v : x) square += (v - 1) * (v - 1) / 4 / n;
  for (double v : x) fourth += std::pow((v - 1) / 2, 4) / n;
  // Five standard errors: of the mean 2 / sqrt(n), of the variance sqrt(2 / n), of the fourth moment sqrt(96 / n).
  EXPECT_NEAR(mean, 1, 5 * 2 / std::sqrt(n));
  EXPECT_NEAR(square, 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(fourth, 3, 5 * std::sqrt(96.0 / n));
}

TEST(Dropout, keeps_its_share_and_its_scale) {
  Session session(shared_test_device(), 4);
  constexpr std::int64_t n = 30000;
  const std::vector<double> y = read(dropout(full(session, f32({3, n / 3}), 2), 0.25));
  std::int64_t zeros = 0;
  for (double v : y) {
    zeros += v == 0;
    if (v != 0) {
      EXPECT_FLOAT_EQ(static_cast<float>(v), 2 / 0.75f);
    }
  }
  EXPECT_NEAR(static_cast<double>(zeros) / n, 0.25, 5 * std::sqrt(0.25 * 0.75 / n));  // five standard errors
}

TEST(Dropout, draws_anew_at_each_call_and_again_the_same_in_the_same_step) {
  Session session(shared_test_device(), 4);
  const auto twice = [&](std::int64_t step) {
    session.begin_random_step(step);
    const Value ones = full(session, f32({2, 50}), 1);
    return std::pair(read(dropout(ones, 0.5)), read(dropout(ones, 0.5)));
  };
  const auto a = twice(1), b = twice(2);
  EXPECT_NE(a.first, a.second);
  EXPECT_NE(a.first, b.first);
  EXPECT_EQ(twice(1), a);
}

TEST(Dropout, of_rate_0_is_the_input_and_of_rate_1_is_0) {
  Session session(shared_test_device());
  const Value x = full(session, f32({9}), 5);
  EXPECT_EQ(dropout(x, 0).storage(), x.storage());
  EXPECT_EQ(read(dropout(x, 1)), std::vector<double>(9, 0.0));
}

}  // namespace
}  // namespace gemel::testing
