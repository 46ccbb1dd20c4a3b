// Gradients of which the largest are sent, against a serial computation that sorts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/numbers.h"
#include "engine/base/philox.h"
#include "parallel/ddp/compression.h"
#include "parallel/transport/thread_communicator.h"

namespace gemel::parallel {
namespace {

using Floats = std::vector<float>;

constexpr int kRanks = 3;

/// Of a few sizes only, so that many are equal and some are 0.
float gradient(int rank, int step, std::int64_t i) {
  PhiloxStream stream(static_cast<std::uint64_t>(1000 * rank + step), static_cast<std::uint32_t>(i));
  return (static_cast<float>(stream.below(9)) - 4) * (i % 3 == 0 ? 0.25f : 1.0f) + (i % 7 == 0 ? 1e-3f * static_cast<float>(stream.below(100)) : 0);
}

/// What is sent of one rank's: the k largest, of equal ones the first.
std::vector<std::size_t> largest(const Floats& values, std::size_t k) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return std::abs(values[a]) > std::abs(values[b]); });
  order.resize(k);
  return order;
}

void expect_as_serial(std::int64_t count, double fraction) {
  constexpr int kSteps = 4;
  std::vector<Floats> expected(kSteps, Floats(at(count), 0.0f)), residuals(kRanks, Floats(at(count), 0.0f));
  for (int step = 0; step < kSteps; ++step)
    for (int r = 0; r < kRanks; ++r) {
      Floats& kept = residuals[at(r)];
      for (std::int64_t i = 0; i < count; ++i) kept[at(i)] += gradient(r, step, i);
      for (const std::size_t i : largest(kept, static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(count))))) {
        expected[at(step)][i] += kept[i];
        kept[i] = 0;
      }
    }
  const std::int64_t before = 5;  // elements of the slab in front of the range
  run_ranks(kRanks, [&](Communicator& c) {
    Collectives collectives(c);
    const std::int64_t slabs[] = {3, before + count};
    const auto compression = make_top_k(fraction, slabs);
    const SlabRange where{1, before, count};
    for (int step = 0; step < kSteps; ++step) {
      Floats gradients(at(count));
      for (std::int64_t i = 0; i < count; ++i) gradients[at(i)] = gradient(c.rank(), step, i);
      compression->sum(collectives, gradients, where);
      EXPECT_EQ(gradients, expected[at(step)]) << "step " << step;
    }
    const std::span<float> residual = compression->residual(where);
    EXPECT_EQ(Floats(residual.begin(), residual.end()), residuals[at(c.rank())]);
  });
}

TEST(TopK, sends_the_largest_and_keeps_the_others_for_later) {
  for (const std::int64_t count : {1, 2, 17, 1000, 5003})
    for (const double fraction : {1e-6, 0.01, 0.3, 1.0}) {
      SCOPED_TRACE(std::to_string(count) + " elements, " + std::to_string(fraction) + " of them");
      expect_as_serial(count, fraction);
    }
}

TEST(TopK, selects_from_each_block_of_a_large_range) {
  constexpr std::int64_t kCount = (std::int64_t{1} << 22) + 1000;  // a block and a rest
  run_ranks(2, [&](Communicator& c) {
    Collectives collectives(c);
    const std::int64_t slabs[] = {kCount};
    const auto compression = make_top_k(0.001, slabs);
    Floats gradients(at(kCount), 1.0f);
    gradients[7] = 2;
    gradients[at(kCount) - 3] = -3;
    compression->sum(collectives, gradients, {0, 0, kCount});
    EXPECT_EQ(gradients[7], 4);
    EXPECT_EQ(gradients[at(kCount) - 3], -6);
    EXPECT_EQ(std::ranges::count(gradients, 0.0f), kCount - 4195 - 1) << "0.001 of 4 194 304, and of 1000";
  });
}

TEST(TopK, sends_what_is_not_finite_first) {
  run_ranks(2, [](Communicator& c) {
    Collectives collectives(c);
    const std::int64_t slabs[] = {100};
    const auto compression = make_top_k(0.01, slabs);
    Floats gradients(100, 1e30f);
    if (c.rank() == 1) gradients[40] = std::numeric_limits<float>::quiet_NaN();
    compression->sum(collectives, gradients, {0, 0, 100});
    EXPECT_TRUE(std::isnan(gradients[40]));
  });
}

}  // namespace
}  // namespace gemel::parallel
