// The trace of a run in parts: of each only what was kept, one behind the other.
#include "frontends/cli/run/chrome_trace.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace gemel::cli {
namespace {

using testing::TemporaryFolder, testing::write_text;

/// A kernel of 80 ns every 100 ns, on two ranks; a checkpoint after every second step of three kernels.
ChromeTrace steps(std::int64_t from, std::int64_t to, std::int64_t clock) {
  ChromeTrace out;
  for (std::int64_t step = from; step <= to; ++step) {
    for (int kernel = 0; kernel < 3; ++kernel) {
      for (int rank = 0; rank < 2; ++rank)
        out.events.push_back({"step " + std::to_string(step), rank == 0 ? Track::compute_queue : Track::communication, rank, clock, clock + 80, 7, 9});
      clock += 100;
    }
    if (step % 2 == 0) out.checkpoints.push_back({step, "/c", clock - 10});
  }
  return out;
}

std::vector<std::string> names(const ChromeTrace& trace) {
  std::vector<std::string> out;
  for (const TraceEvent& e : trace.events)
    if (e.rank == 0) out.push_back(e.name);
  return out;
}

class RunTrace : public ::testing::Test {
 protected:
  std::string file() const { return (folder_ / "trace.json").string(); }
  ChromeTrace through_file(const ChromeTrace& trace) const {
    write_trace(file(), trace);
    return read_trace(file());
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(RunTrace, is_read_as_it_was_written) {
  const ChromeTrace written = steps(1, 4, 5'000'000'000'123), read = through_file(written);
  ASSERT_EQ(read.events.size(), written.events.size());
  EXPECT_EQ(names(read), names(written));
  EXPECT_EQ(read.events[1].begin_ns, 100) << "times begin with the first event";
  EXPECT_EQ(read.events[1].end_ns, 180);
  EXPECT_EQ(read.events[1].flops, 7);
  EXPECT_EQ(read.events[1].bytes, 9);
  EXPECT_EQ(read.events.back().rank, 1);
  EXPECT_EQ(read.events.back().track, Track::communication);
  ASSERT_EQ(read.checkpoints.size(), 2u);
  EXPECT_EQ(read.checkpoints[1].step, 4);
  EXPECT_EQ(read.checkpoints[1].folder, "/c");
  EXPECT_EQ(read.checkpoints[1].at_ns, 1190);
}

TEST_F(RunTrace, of_a_run_that_failed_between_checkpoints_has_each_step_once) {
  const ChromeTrace first = through_file(steps(1, 5, 900)), both = through_file(continued(first, "/c", 4, steps(5, 8, 77)));
  EXPECT_EQ(names(both), names(steps(1, 8, 0)));
  const ChromeTrace all = through_file(continued(both, "/c", 8, steps(9, 9, 1'000'000)));
  EXPECT_EQ(names(all), names(steps(1, 9, 0)));
  std::int64_t end = 0;
  for (const TraceEvent& e : all.events) {
    if (e.rank != 0) continue;
    EXPECT_GE(e.begin_ns, end);
    end = e.end_ns;
  }
}

TEST_F(RunTrace, of_a_part_that_was_killed_and_left_none_lacks_that_part_alone) {
  const ChromeTrace first = through_file(steps(1, 3, 0)), on = continued(first, "/c", 6, steps(7, 8, 0));
  auto expected = names(steps(1, 2, 0));  // step 3 was done again by the part that is lost
  for (const std::string& name : names(steps(7, 8, 0))) expected.push_back(name);
  EXPECT_EQ(names(on), expected);
}

TEST_F(RunTrace, of_another_run_is_not_gone_on_with) {
  const ChromeTrace other = steps(1, 4, 0), now = steps(3, 4, 0);
  EXPECT_EQ(names(continued(other, "/elsewhere", 2, now)), names(now)) << "its checkpoints lie in another folder";
  EXPECT_EQ(names(continued(other, "/c", 1, now)), names(now)) << "it has none so early";
  EXPECT_EQ(names(continued({}, "/c", 2, now)), names(now));
  EXPECT_EQ(names(continued(other, "/c", 4, {})), names(other)) << "nothing was left to do";
}

TEST_F(RunTrace, that_is_none_is_nothing_to_go_on_with) {
  EXPECT_TRUE(read_trace(file()).events.empty());
  write_trace(file(), steps(1, 2, 0));
  const std::string whole = testing::read_text(file());
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[]"), whole.substr(0, whole.size() / 2), std::string(R"({"traceEvents":[]})"),
        std::string(R"({"traceEvents":[{"ph":"X"}],"otherData":{"checkpoints":[]}})"), std::string(R"({"traceEvents":7,"otherData":{"checkpoints":7}})"),
        std::string(R"({"traceEvents":[{"ph":"X","name":"a","ts":"0","dur":1,"pid":0,"tid":0,"args":{}}]})")}) {
    write_text(file(), text);
    const ChromeTrace read = read_trace(file());
    EXPECT_TRUE(read.events.empty() && read.checkpoints.empty()) << text.substr(0, 100);
  }
}

}  // namespace
}  // namespace gemel::cli
