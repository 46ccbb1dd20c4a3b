// A run's claim on a folder, and when the next one may have it.
#include "engine/base/files/folder_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error.h"
#include "tests/support/device/test_device.h"
#include "tests/support/faults/without_locks.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

class LockedFolder : public ::testing::Test {
 protected:
  const fs::path& folder() const { return folder_.path(); }
  fs::path file() const { return FolderLock::file_in(folder(), "log"); }
  /// What a second run is told; nothing where it may have the folder.
  std::string refusal() const {
    try {
      FolderLock::require_free(folder(), "log");
      return "";
    } catch (const DataError& e) {
      return e.what();
    }
  }
  bool is_free() const { return refusal().empty(); }
  /// The file as a run of this process has it.
  std::string own_text() const {
    const FolderLock lock(folder(), "log");
    return read_text(file());
  }
  static std::string with(std::string text, const std::string& key, const std::string& value) {
    const std::size_t at = text.find(key + " ") + key.size() + 1;
    return text.replace(at, text.find('\n', at) - at, value);
  }
  void renewed_before(std::chrono::seconds ago) const { fs::last_write_time(file(), fs::file_time_type::clock::now() - ago); }

 private:
  TemporaryFolder folder_;
};

TEST_F(LockedFolder, is_one_runs_at_a_time_and_keeps_nothing_of_it) {
  std::optional<FolderLock> first(std::in_place, folder(), "log");
  const std::string refused = "log: " + folder().string() + " is in use by another run, process " + std::to_string(::getpid()) + " on ";
  EXPECT_EQ(refusal().rfind(refused, 0), 0u) << refusal();
  EXPECT_EQ(message_of<DataError>([&] { FolderLock(folder(), "log"); }), refusal());
  EXPECT_TRUE(refusal().ends_with("; accepted: a folder of its own")) << refusal();
  const std::string text = read_text(file());
  for (const char* line : {"host ", "\nmachine ", "\nprocess ", "\nstarted ", "\nrenewed 20"}) EXPECT_NE(text.find(line), text.npos) << text;
  const FolderLock other(folder(), "checkpoint");
  first.reset();
  EXPECT_FALSE(fs::exists(file()));
  const FolderLock next(folder(), "log");
  EXPECT_TRUE(fs::exists(file()));
}

TEST_F(LockedFolder, is_free_at_once_when_its_run_was_killed) {
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock lock(folder(), "log");
    ::kill(::getpid(), SIGKILL);
  }
  // A zombie until it is waited for, as under a shell that looks later.
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(fs::exists(file()));
  EXPECT_TRUE(is_free()) << refusal();
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(is_free()) << refusal();
  const FolderLock next(folder(), "log");
  EXPECT_FALSE(is_free());
}

TEST_F(LockedFolder, is_free_when_the_process_number_is_another_ones_now) {
  const std::string text = own_text();
  write_text(file(), text);
  EXPECT_FALSE(is_free());
  write_text(file(), with(text, "started", "1"));
  EXPECT_TRUE(is_free());
}

TEST_F(LockedFolder, of_another_machine_is_free_when_it_was_not_renewed_for_a_minute) {
  // Of another host, of this one before or after a start of its system, or in another container: the process cannot be looked up.
  write_text(file(), with(with(own_text(), "machine", "0a1b/pid:[7]"), "host", "elsewhere"));
  EXPECT_NE(refusal().find(" on elsewhere, heard of 0 s ago; accepted: a folder of its own, or this one 60 s after that run's end"), std::string::npos)
      << refusal();
  renewed_before(std::chrono::seconds(50));
  EXPECT_NE(refusal().find(", heard of 5"), std::string::npos) << refusal();
  renewed_before(std::chrono::seconds(-3600));
  EXPECT_FALSE(is_free()) << "its clock may be ahead";
  EXPECT_NE(refusal().find(" on elsewhere, by a clock that is 3"), std::string::npos) << refusal();
  EXPECT_NE(refusal().find(" s ahead of this one; accepted: a folder of its own, or this one without " + file().string() + " where that run has ended"),
            std::string::npos)
      << refusal();
  renewed_before(std::chrono::seconds(61));
  EXPECT_TRUE(is_free());
  const FolderLock next(folder(), "log");
  EXPECT_FALSE(is_free()) << "and is then the next run's";
}

TEST_F(LockedFolder, of_a_run_that_was_stopped_for_a_minute_is_free_and_no_longer_its_own) {
  std::optional<FolderLock> stopped(std::in_place, folder(), "log");
  renewed_before(std::chrono::seconds(61));
  EXPECT_TRUE(is_free());
  write_text(file(), with(read_text(file()), "machine", "another"));  // as who took it writes
  stopped.reset();
  EXPECT_TRUE(fs::exists(file()));
}

TEST_F(LockedFolder, is_free_where_the_file_is_none_that_a_run_wrote_whole) {
  const std::string text = own_text();
  for (const std::string& torn : {std::string(), std::string("\n"), text.substr(0, text.size() / 2), std::string("process 1"), std::string(100'000, 'x'),
                                  with(text, "process", "-1"), with(text, "process", "99999999999999999999"), std::string("\0\0\0\0", 4)}) {
    write_text(file(), torn);
    EXPECT_TRUE(is_free()) << torn.substr(0, 100) << refusal();
    const FolderLock lock(folder(), "log");
    EXPECT_FALSE(is_free());
  }
}

TEST_F(LockedFolder, is_everybodys_where_the_file_system_has_no_locks) {
  for (const int error : {ENOLCK, ENOSYS, EOPNOTSUPP, EBADF, EINVAL}) {
    const WithoutLocks none(error);
    const FolderLock first(folder(), "log"), second(folder(), "log");
    EXPECT_TRUE(is_free()) << error;
    EXPECT_TRUE(fs::is_empty(folder())) << error;
  }
}

TEST_F(LockedFolder, is_everybodys_where_no_file_can_be_its_lock) {
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  { const FolderLock first(folder(), "log"), second(folder(), "log"); }  // and no reader is waited for
  fs::remove(file());
  fs::create_symlink(folder() / "elsewhere", file());
  { const FolderLock first(folder(), "log"), second(folder(), "log"); }
  EXPECT_FALSE(fs::exists(folder() / "elsewhere"));
  fs::remove(file());
  fs::create_directory(file());
  const FolderLock first(folder(), "log"), second(folder(), "log");
  const FolderLock nowhere(folder() / "none", "log");
}

TEST_F(LockedFolder, that_is_removed_under_its_run_stays_so) {
  const fs::path inner = folder() / "inner";
  fs::create_directory(inner);
  std::optional<FolderLock> lock(std::in_place, inner, "log");
  fs::remove_all(inner);
  lock.reset();
  EXPECT_FALSE(fs::exists(inner));
}

TEST_F(LockedFolder, has_one_of_several_that_come_at_once) {
  std::atomic<int> have = 0, refused = 0;
  {
    std::vector<std::jthread> runs;
    for (int i = 0; i < 4; ++i)
      runs.emplace_back([&] {
        try {
          const FolderLock lock(folder(), "log");
          ++have;
          while (have + refused < 4) std::this_thread::yield();
        } catch (const DataError&) {
          ++refused;
        }
      });
  }
  EXPECT_EQ(have, 1);
  EXPECT_EQ(refused, 3);
}

TEST_F(LockedFolder, is_renewed_as_long_as_its_run_lives) {
  if (!is_full_run()) GTEST_SKIP() << "with --full: it takes as long as a renewal";
  const FolderLock lock(folder(), "log");
  const std::string before = read_text(file());
  renewed_before(std::chrono::seconds(30));
  const auto old = fs::last_write_time(file());
  for (auto end = std::chrono::steady_clock::now() + 2 * FolderLock::kRenewal; fs::last_write_time(file()) == old && std::chrono::steady_clock::now() < end;)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_GT(fs::last_write_time(file()), old);
  EXPECT_NE(read_text(file()), before);
}

}  // namespace
}  // namespace gemel::testing
