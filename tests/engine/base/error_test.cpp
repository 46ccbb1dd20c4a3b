// Errors: their text.
#include "engine/base/error.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <system_error>

namespace gemel {
namespace {

TEST(Error, spells_out_a_nul_and_what_follows_it) {
  EXPECT_STREQ(DataError(std::string("a\0b\0", 4)).what(), "a\\x00b\\x00");
  EXPECT_STREQ(UsageError("a \\ of 1").what(), "a \\ of 1");
}

TEST(Error, of_gemel_speaks_for_itself_and_what_libraries_throw_is_worded) {
  EXPECT_EQ(worded(ShapeError("softmax: axis 3 is out of range")), "softmax: axis 3 is out of range");
  EXPECT_EQ(worded(std::bad_alloc()),
            "out of memory on the host: more was asked for than this computer has, or a limit (ulimit -v) leaves; accepted: a smaller batch, input or model");
  EXPECT_EQ(worded(std::bad_array_new_length()), worded(std::bad_alloc()));
  const auto denied = std::make_error_code(std::errc::permission_denied);
  EXPECT_EQ(worded(std::filesystem::filesystem_error("cannot copy", "a", "b", denied)), "files: cannot use a and b: Permission denied");
  EXPECT_EQ(worded(std::filesystem::filesystem_error("cannot list", "a", denied)), "files: cannot use a: Permission denied");
  EXPECT_EQ(worded(std::filesystem::filesystem_error("cannot get current path", denied)), "files: a call failed: Permission denied");
  EXPECT_EQ(worded(std::system_error(denied, "/a cannot be opened")), "system: /a cannot be opened: Permission denied");
}

TEST(Error, that_nothing_expects_is_told_apart_from_a_users_fault) {
  for (const std::string what : {"stoi", "map::at"})
    EXPECT_EQ(worded(std::out_of_range(what)), "internal error: a library threw what nothing expects ('" + what + "'); please report it");
  try {
    FAIL() << nlohmann::json::parse("{");
  } catch (const std::exception& e) {
    EXPECT_TRUE(worded(e).starts_with("internal error: a library threw what nothing expects ('[json.exception")) << worded(e);
  }
}

}  // namespace
}  // namespace gemel
