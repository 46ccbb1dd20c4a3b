// Tables and curves: cells have the exact least and greatest of their rows, and there are never more than 2 000.
#include "frontends/monitor/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "engine/base/error.h"
#include "tests/support/message_of.h"

namespace gemel::monitor {
namespace {

TEST(MonitorTable, the_last_row_of_a_step_counts_whatever_order_rows_come_in) {
  Table table;
  for (const int step : {1, 2, 3, 2, 5, 4, 1}) {
    table.add_row(step);
    table.set("loss", 10 * step + static_cast<double>(table.xs().size()));
  }
  table.settle();
  EXPECT_EQ(std::vector<double>(table.xs().begin(), table.xs().end()), (std::vector<double>{1, 2, 3, 4, 5}));
  EXPECT_EQ(table.columns()[0].values, (std::vector<float>{17, 24, 33, 46, 55}));
}

TEST(MonitorTable, a_column_that_begins_later_has_no_values_before) {
  Table table;
  table.add_row(1);
  table.set("loss", 1);
  table.add_row(2);
  table.set("accuracy", 0.5);
  table.set("loss", 1e300);  // beyond float32
  ASSERT_EQ(table.columns().size(), 2u);
  EXPECT_TRUE(std::isnan(table.columns()[1].values[0]));
  EXPECT_EQ(table.columns()[1].values[1], 0.5f);
  EXPECT_TRUE(std::isnan(table.columns()[0].values[1]));
}

TEST(MonitorTable, no_file_makes_more_columns_than_are_accepted) {
  Table table;
  table.add_row(1);
  for (int i = 0; i < 1000; ++i) table.set("c" + std::to_string(i), i);
  EXPECT_EQ(table.columns().size(), Table::kMostColumns);
}

class CurveOf : public ::testing::Test {
 protected:
  CurveOf() {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> value(-5, 5);
    for (int i = 1; i <= 100003; ++i) {
      if (i % 977 == 0) continue;  // steps that were not written
      x.push_back(i);
      y.push_back(i % 13 == 0 ? std::numeric_limits<float>::quiet_NaN() : value(random));
    }
  }
  std::vector<double> x;
  std::vector<float> y;
};

TEST_F(CurveOf, every_point_has_the_exact_bounds_and_mean_of_what_it_stands_for) {
  struct Bounds {
    float low = std::numeric_limits<float>::infinity(), high = -std::numeric_limits<float>::infinity();
    double sum = 0, count = 0;
  };
  for (const auto& [from, to] : {std::pair(1.0, 100003.0), {40000.0, 44001.0}, {99000.5, 2e5}}) {
    const Curve curve = curve_of(x, y, {.from = from, .to = to});
    std::map<double, Bounds> expected;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(y[i]) || std::floor(x[i] / curve.width) < std::floor(from / curve.width) || std::floor(x[i] / curve.width) > std::floor(to / curve.width))
        continue;
      Bounds& b = expected[std::floor(x[i] / curve.width)];
      b.low = std::min(b.low, y[i]);
      b.high = std::max(b.high, y[i]);
      b.sum += y[i];
      ++b.count;
    }
    EXPECT_LE(curve.cells.size(), 2000u);
    EXPECT_GT(curve.cells.size(), 10u);
    ASSERT_EQ(curve.cells.size(), expected.size());
    auto at = expected.begin();
    for (const Curve::Cell& cell : curve.cells) {
      EXPECT_EQ(cell.x, at->first * curve.width + (curve.width - 1) / 2);
      EXPECT_EQ(cell.low, at->second.low);
      EXPECT_EQ(cell.high, at->second.high);
      EXPECT_NEAR(cell.mean, at->second.sum / at->second.count, 1e-6);  // float32 of a sum in another order
      ++at;
    }
  }
}

TEST_F(CurveOf, two_thousand_steps_are_each_a_point_of_its_own) {
  const Curve curve = curve_of(x, y, {.from = 1, .to = 2000});
  EXPECT_EQ(curve.width, 1);
  EXPECT_EQ(curve.cells[0].x, 1);
  for (const Curve::Cell& cell : curve.cells) EXPECT_EQ(cell.low, cell.high);
}

TEST_F(CurveOf, parts_of_a_curve_share_their_cells) {
  const Curve part = curve_of(x, y, {.from = 700, .to = 5000, .width = 64}), other = curve_of(x, y, {.from = 1001, .to = 9000, .width = 64});
  std::map<double, float> means;
  for (const Curve::Cell& cell : part.cells) means[cell.x] = cell.mean;
  int shared = 0;
  for (const Curve::Cell& cell : other.cells)
    if (means.contains(cell.x)) {
      EXPECT_EQ(means[cell.x], cell.mean);
      ++shared;
    }
  EXPECT_EQ(shared, 5000 / 64 - 1001 / 64 + 1);
}

TEST(CellWidth, is_the_least_power_of_two_that_keeps_the_number_of_cells) {
  EXPECT_EQ(cell_width({.from = 0, .to = 1999}), 1);
  EXPECT_EQ(cell_width({.from = 0, .to = 2000}), 2);
  EXPECT_EQ(cell_width({.from = 1, .to = 2000}), 1);
  EXPECT_EQ(cell_width({.from = 0, .to = 10, .is_counted = false}), 1.0 / 128);
  EXPECT_EQ(cell_width({.from = 0, .to = 1e15}), std::exp2(39));
  EXPECT_EQ(cell_width({.from = 0, .to = 10, .width = 100}), 128);
}

TEST(CellWidth, what_is_no_range_is_refused) {
  for (const Detail& d : {Detail{.from = 2, .to = 1}, Detail{.from = 0, .to = 1e16}, Detail{.from = -1e300, .to = 1}, Detail{.from = 0, .to = 1, .width = -1},
                          Detail{.from = std::nan(""), .to = 1}, Detail{.from = 0, .to = INFINITY}, Detail{.from = 0, .to = 1, .width = INFINITY},
                          Detail{.from = 0, .to = 1, .width = std::nan("")}})
    EXPECT_NE(testing::message_of<DataError>([&] { cell_width(d); }).find("is no part of a curve"), std::string::npos);
}

}  // namespace
}  // namespace gemel::monitor
