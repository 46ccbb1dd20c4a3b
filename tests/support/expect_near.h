// Lists of numbers beside those that are expected.
#pragma once
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace gemel::testing {

/// @param tolerance  of each element, not of its size
/// @param what       the numbers are, for the message
inline void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double tolerance, const std::string& what = "element") {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << what << " at " << i;
}

}  // namespace gemel::testing
