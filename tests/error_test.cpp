// Errors: their text.
#include "engine/base/error.h"

#include <gtest/gtest.h>

#include <string>

namespace gemel {
namespace {

TEST(Error, spells_out_a_nul_and_what_follows_it) {
  EXPECT_STREQ(DataError(std::string("a\0b\0", 4)).what(), "a\\x00b\\x00");
  EXPECT_STREQ(UsageError("a \\ of 1").what(), "a \\ of 1");
}

}  // namespace
}  // namespace gemel
