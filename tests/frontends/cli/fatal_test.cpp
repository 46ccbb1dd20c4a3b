// The program's last words where an exception or an abort leaves a thread or a callback that nobody can catch it from.
#include "frontends/cli/fatal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "frontends/cli/job/launch_messages.h"

namespace gemel::cli {
namespace {

using ::testing::ExitedWithCode;

void in_a_thread(const std::function<void()>& work) { std::thread(work).join(); }
/// As a driver calls: its frames let no exception through.
void in_a_callback(const std::function<void()>& work) noexcept { work(); }

/// The program starts anew in a process without the threads that drivers have started in this one.
class Fatal : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void TearDown() override { GTEST_FLAG_SET(death_test_style, "fast"); }
};

constexpr std::array<void (*)(const std::function<void()>&), 2> kPlaces{in_a_thread, in_a_callback};
constexpr const char* kOutOfMemory = "^gemel: out of memory in a driver or library; accepted: [^\n]*\n$";

TEST_F(Fatal, memory_that_a_thread_or_a_callback_lacks_is_told_in_one_line) {
  for (const auto where : kPlaces) EXPECT_EXIT((end_with_a_line(), where([] { throw std::bad_alloc(); })), ExitedWithCode(1), kOutOfMemory);
}

TEST_F(Fatal, another_exception_is_told_in_one_line_with_its_words) {
  for (const auto where : kPlaces)
    EXPECT_EXIT((end_with_a_line(), where([] { throw std::runtime_error("no such thing"); })), ExitedWithCode(1), "^gemel: [^\n]*no such thing[^\n]*\n$");
  EXPECT_EXIT((end_with_a_line(), in_a_thread([] { throw 1; })), ExitedWithCode(1), "^gemel: a library threw what nothing caught\n$");
}

TEST_F(Fatal, an_abort_is_told_in_one_line) {
  EXPECT_EXIT((end_with_a_line(), in_a_thread([] { std::abort(); })), ExitedWithCode(1), "^gemel: a library gave up and ended the program [^\n]*\n$");
}

TEST_F(Fatal, a_launched_process_has_other_statuses_so_that_its_launcher_knows_who_spoke) {
  const auto of_rank = [](void (*end)()) {
    ::setenv(Launched::kVariable, Launched().text().c_str(), 1);
    end_with_a_line();
    in_a_thread(end);
  };
  EXPECT_EXIT(of_rank([] { throw std::runtime_error("no such thing"); }), ExitedWithCode(Launched::kToldFailure), "^gemel: [^\n]*no such thing[^\n]*\n$");
  EXPECT_EXIT(of_rank([] { std::abort(); }), ExitedWithCode(128 + SIGABRT), "^gemel: a library gave up [^\n]*\n$");
}

TEST_F(Fatal, ctrl_backslash_ends_the_program_whatever_handler_a_compiler_has_set) {
  const auto wait = [] {
    std::signal(SIGQUIT, SIG_DFL);  // what is started behind an & may ignore it
    end_at_quit();
    std::signal(SIGQUIT, [](int) {});  // as LLVM's, which removes its files and returns
    std::thread waiting([] { std::this_thread::sleep_for(std::chrono::seconds(5)); });
    ::kill(::getpid(), SIGQUIT);
    waiting.join();
    std::_Exit(0);
  };
  EXPECT_EXIT(wait(), ::testing::KilledBySignal(SIGQUIT), "");
}

}  // namespace
}  // namespace gemel::cli
