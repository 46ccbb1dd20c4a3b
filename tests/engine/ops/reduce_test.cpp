// What samples are too small to show of the reductions: long series, and NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/ops/ops.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

std::vector<double> positive_numbers(std::int64_t n) {
  std::mt19937 random(3);
  std::vector<double> x(at(n));
  for (double& v : x) v = static_cast<float>(std::uniform_real_distribution<double>(0, 1)(random));
  return x;
}

// Blocks of 64 terms and their sums: rounding adds up over less than 2 x 64 + 16 steps, by chance, so far below 144 units.
constexpr double kLongSum = 1e-6;

TEST(Reduce, sum_of_a_million_numbers_to_one_is_exact_to_float) {
  const Shape shape{1 << 20};
  const std::vector<double> x = positive_numbers(shape.elements());
  double expected = 0;
  for (double v : x) expected += v;
  const Value on_device = test_session().tensor({shape}, std::span<const double>(x));
  const std::vector<double> got = read(sum(on_device));
  EXPECT_LE(relative_error(got, {expected}), kLongSum);
  EXPECT_EQ(read(sum(on_device)), got) << "the same order at every run";
  EXPECT_LE(relative_error(read(mean(on_device)), {expected / static_cast<double>(x.size())}), kLongSum);
}

TEST(Reduce, sum_of_long_columns_is_exact_to_float) {
  const std::int64_t rows = 1 << 14, columns = 40;
  const std::vector<double> x = positive_numbers(rows * columns);
  std::vector<double> expected(at(columns), 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) expected[i % at(columns)] += x[i];
  const Value on_device = test_session().tensor({{rows, columns}}, std::span<const double>(x));
  EXPECT_LE(relative_error(read(sum(on_device, {0})), expected), kLongSum);
}

TEST(Reduce, max_and_argmax_let_nan_through) {
  constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> x{1, kNoNumber, 3, kNoNumber, 4, 2, 5, 5};
  const auto reference = Session::reference();
  for (Session* session : {&test_session(), reference.get()}) {
    const Value rows = session->tensor({{2, 4}}, std::span<const double>(x));
    const std::vector<double> best = read(max(rows, {1}));
    EXPECT_TRUE(std::isnan(best[0]));
    EXPECT_EQ(best[1], 5);
    EXPECT_TRUE(std::isnan(read(max(rows, {0}))[1]));
    EXPECT_EQ(read(argmax(rows, 1)), (std::vector<double>{1, 2}));
  }
}

}  // namespace
}  // namespace gemel::testing
