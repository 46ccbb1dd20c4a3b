// Usage of processes that compute for a known time.
#include "engine/base/usage/process_state.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <thread>

namespace gemel {
namespace {

using Clock = std::chrono::steady_clock;

/// Takes that much processor time, however long others have the core.
[[noreturn]] void compute(double seconds) {
  while (static_cast<double>(std::clock()) < seconds * CLOCKS_PER_SEC) {
  }
  ::pause();
  ::_exit(0);
}

TEST(ProcessState, usage_of_a_tree_has_its_descendants) {
  constexpr double kSeconds = 0.2;
  const pid_t parent = ::fork();
  if (parent == 0) {
    if (::fork() == 0) compute(kSeconds);  // a new process's time begins at 0
    compute(kSeconds);
  }
  std::vector<pid_t> children;
  for (const auto begin = Clock::now(); Clock::now() - begin < std::chrono::seconds(10);) {
    children = children_of(parent);
    if (usage_of_tree(parent).processor_seconds > 1.6 * kSeconds) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_EQ(children.size(), 1U);
  const ProcessUsage all = usage_of_tree(parent), one = usage_of(parent), other = usage_of(children[0]);
  EXPECT_NEAR(all.processor_seconds, one.processor_seconds + other.processor_seconds, 0.1);
  EXPECT_GT(all.processor_seconds, 1.6 * kSeconds);
  EXPECT_EQ(all.resident_bytes, one.resident_bytes + other.resident_bytes);
  EXPECT_GT(other.resident_bytes, 0);
  ::kill(children[0], SIGKILL);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_EQ(usage_of_tree(parent).resident_bytes, 0);
}

TEST(ProcessState, the_machine_is_busy_at_least_as_long_as_this_process) {
  constexpr double kSeconds = 0.3, kTick = 0.05;  // times have steps of 10 ms, one for each processor
  const double before = busy_seconds_of_machine().value();
  for (const std::clock_t begin = std::clock(); static_cast<double>(std::clock() - begin) < kSeconds * CLOCKS_PER_SEC;) {
  }
  EXPECT_GE(busy_seconds_of_machine().value() - before, kSeconds - kTick);
}

}  // namespace
}  // namespace gemel
