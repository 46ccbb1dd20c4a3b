// What the generated tests of the records cannot see: ties, and extents against known values.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/autograd.h"
#include "engine/base/span.h"
#include "engine/ops/ops.h"
#include "engine/session.h"
#include "tests/test_device.h"

namespace gemel::testing {
namespace {

Value tensor(Session& session, const Shape& shape, const std::vector<double>& numbers) {
  return session.tensor({shape}, std::span<const double>(numbers));
}

TEST(Pooling, first_of_equal_maxima_takes_the_gradient) {
  Session session(shared_test_device());
  const Value x = leaf(tensor(session, {1, 2, 4, 1}, {1, 3, 0, 0, 3, 3, 0, 0}));
  const Values dx = gradient({max_pool2d(x, {})}, {x});
  EXPECT_EQ(read(dx[0]), (std::vector<double>{0, 1, 1, 0, 0, 0, 0, 0}));
}

TEST(Pooling, the_first_tap_inside_the_image_wins_where_all_are_minus_infinity) {
  const double low = -std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto reference = Session::reference();
  Session device(shared_test_device());
  for (Session* session : {reference.get(), &device})
    for (std::int64_t channels : {1, 16}) {
      const auto x_of = [&](const std::vector<double>& image) {
        std::vector<double> x;
        for (double v : image) x.insert(x.end(), at(channels), v);
        return leaf(tensor(*session, {1, 2, 2, channels}, x));
      };
      const Value x = x_of({low, low, low, low}), y = max_pool2d(x, {.kernel = {3, 3}, .stride = {3, 3}, .padding = {1, 1}});
      EXPECT_EQ(read(y)[0], low);
      EXPECT_EQ(read(sum(gradient({y}, {x})[0], {3})), (std::vector<double>{static_cast<double>(channels), 0, 0, 0}));
      const Value mixed = x_of({low, nan, 5, low});
      EXPECT_EQ(read(sum(gradient({max_pool2d(mixed, {})}, {mixed})[0], {3})), (std::vector<double>{0, static_cast<double>(channels), 0, 0}));
    }
}

TEST(Pooling, max_keeps_what_is_not_a_number) {
  Session session(shared_test_device());
  const Value x = tensor(session, {1, 1, 2, 1}, {std::numeric_limits<double>::quiet_NaN(), 5});
  EXPECT_TRUE(std::isnan(read(max_pool2d(x, {.kernel = {1, 2}}))[0]));
}

TEST(Pooling, ceil_mode_counts_a_window_only_if_it_starts_before_the_far_padding) {
  const auto session = Session::reference();
  const auto extent = [&](std::int64_t h, const Window& v) {
    return max_pool2d(session->empty({Shape{1, h, 8, 1}}), v).shape()[1];
  };
  EXPECT_EQ(extent(6, {.kernel = {3, 3}, .stride = {2, 2}}), 2);
  EXPECT_EQ(extent(6, {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true}), 3);
  EXPECT_EQ(extent(5, {.padding = {1, 1}, .ceil_mode = true}), 3);  // a fourth would start at row 5
  EXPECT_EQ(extent(2, {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true}), 1);
}

TEST(Pooling, average_divides_by_the_window_or_by_what_lies_in_the_image) {
  const auto session = Session::reference();
  const Value x = tensor(*session, {1, 1, 3, 1}, {1, 2, 3});
  const Window v{.kernel = {1, 2}, .stride = {1, 2}, .padding = {0, 1}};
  EXPECT_EQ(read(avg_pool2d(x, v)), (std::vector<double>{0.5, 2.5}));
  Window only_image = v;
  only_image.count_padding = false;
  EXPECT_EQ(read(avg_pool2d(x, only_image)), (std::vector<double>{1, 2.5}));
}

TEST(Pooling, adaptive_windows_overlap_where_the_extents_do_not_divide) {
  const auto session = Session::reference();
  const Value x = tensor(*session, {1, 1, 5, 1}, {1, 2, 3, 4, 6});
  EXPECT_EQ(read(adaptive_avg_pool2d(x, {1, 2})), (std::vector<double>{2, 13.0 / 3}));
}

}  // namespace
}  // namespace gemel::testing
