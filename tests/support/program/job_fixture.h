// The gemel program on several ranks under mpirun.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/base/usage/process_state.h"
#include "tests/support/device/test_device.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {

class Job : public CommandLine {
 protected:
  void SetUp() override {
    if (::access("/usr/bin/mpirun", X_OK) != 0) GTEST_SKIP() << "mpirun is not installed";
  }

  void on_ranks(int ranks) { launcher_ = {"mpirun", "--oversubscribe", "-np", std::to_string(ranks)}; }
  pid_t start_job(const Words& arguments, const std::function<void()>& prepare = {}) {
    return start(arguments, [&] {
      for (const char* as_root : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) ::setenv(as_root, "1", 1);
      if (prepare) prepare();
    });
  }
  static Words lenet(const Words& more) {
    return joined({"train", "--model", "lenet", "--limit", "40", "--batch-size", "12", "--optimizer", "momentum", "--eval-every", "0"}, more);
  }
  /// Looks every few milliseconds. @return whether it came in time
  static bool until(const std::function<bool()>& moment, std::chrono::seconds within) {
    const auto end = std::chrono::steady_clock::now() + within;
    while (!moment()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  bool has_event(const std::string& event, const std::string& log) const {
    return read_text(folder() / log / "run.jsonl").find("{\"event\":\"" + event + "\"") != std::string::npos;
  }
  bool has_step(const std::string& log) const { return has_event("step", log); }
  /// @return whether the first such event came to its log
  bool comes_to(const std::string& event, pid_t job, const std::string& log) const {
    return until([&] { return has_event(event, log) || !runs(job); }, std::chrono::seconds(60)) && has_event(event, log);
  }
  bool begins(pid_t job, const std::string& log) const { return comes_to("step", job, log); }
  /// Its outcome; where it goes on for longer it is killed.
  Outcome finish_within(std::chrono::seconds limit, pid_t job) {
    if (!until([&] { return !runs(job); }, limit)) {
      ADD_FAILURE() << "it goes on after " << limit.count() << " s: " << read_text(folder() / "err");
      for (const pid_t p : children_of(job)) ::kill(p, SIGKILL);
      ::kill(job, SIGKILL);
    }
    return finish(job);
  }
  /// Whether it is there and has not ended.
  static bool runs(pid_t process) {
    const std::string stat = read_text("/proc/" + std::to_string(process) + "/stat");
    const auto name_end = stat.rfind(')');
    return name_end != stat.npos && stat.substr(name_end + 2, 1) != "Z";
  }
  /// Of mpirun: its processes that are the program by now, by their rank. They need not have started in that order.
  static std::vector<pid_t> ranks_of(pid_t mpirun) {
    std::map<int, pid_t> out;
    for (const pid_t p : children_of(mpirun)) {
      const std::string process = "/proc/" + std::to_string(p), environment = '\0' + read_text(process + "/environ");
      const std::string name = std::string(1, '\0') + "OMPI_COMM_WORLD_RANK=";
      const auto at = environment.find(name);
      if (at != environment.npos && read_text(process + "/comm") == "gemel\n") out[std::atoi(environment.c_str() + at + name.size())] = p;
    }
    std::vector<pid_t> ranks;
    for (const auto& [rank, p] : out) ranks.push_back(p);
    return ranks;
  }
  static void expect_gone(const std::vector<pid_t>& ranks, std::chrono::seconds within = std::chrono::seconds(5)) {
    for (const pid_t p : ranks) EXPECT_TRUE(until([&] { return !runs(p); }, within)) << "a rank is left over";
  }
  /// Sends a signal; SIGSEGV until it ends: LLVM's handler takes the first and goes back to where a real fault would come again.
  static void hit(pid_t rank, int signal) {
    ::kill(rank, signal);
    if (signal == SIGSEGV) until([&] { return !runs(rank) || ::kill(rank, signal) != 0; }, std::chrono::seconds(2));
  }
  static std::ptrdiff_t lines_with(const std::string& text, const Outcome& o) {
    return std::ranges::count_if(lines_of(o.err), [&](const std::string& line) { return line.find(text) != line.npos; });
  }
  /// It ends soon, and the text stands in one line of one rank, behind "gemel: ".
  void expect_told_once(const std::string& text, pid_t job) {
    const Outcome o = finish_within(std::chrono::seconds(5), job);
    EXPECT_NE(o.status, 0);
    EXPECT_EQ(lines_with("gemel: ", o), 1) << o.err;
    EXPECT_EQ(lines_with("gemel: " + text, o), 1) << "wanted: " << text << "\ngot: " << o.err;
  }
  /// Each step's as in the log "alone". float32 sums in another order differ by some last places of 6e-8, which steps carry on and let grow: 1e-5 of a loss.
  void expect_losses_as_alone(const std::string& log) const {
    const auto expected = losses("alone"), got = losses(log);
    ASSERT_FALSE(expected.empty());
    ASSERT_EQ(got.size(), expected.size()) << log;
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5 * expected[i]) << log << ", step " << i + 1;
  }
  /// Trains in one process and on ranks, with the style's options; their logs "alone" and "job" replace those before. The loss of validation is compared, too.
  void expect_losses_of_one_process(int ranks, const Words& command, const Words& style) {
    for (const char* log : {"alone", "job"}) std::filesystem::remove_all(folder() / log);
    launcher_.clear();
    const Outcome one = run(joined(command, {"--log-dir", in_folder("alone")}));
    ASSERT_EQ(one.status, 0) << one.err;
    on_ranks(ranks);
    const Outcome all = finish(start_job(joined(joined(command, {"--log-dir", in_folder("job")}), style)));
    ASSERT_EQ(all.status, 0) << all.err;
    SCOPED_TRACE(style[1]);
    expect_losses_as_alone("job");
    const double validation = last_epoch("alone").at("val_loss");
    EXPECT_GT(validation, 0);
    EXPECT_NEAR(last_epoch("job").at("val_loss").get<double>(), validation, 1e-5 * validation);
  }
  void expect_refused_on(int ranks, const Words& arguments, const std::string& text) {
    on_ranks(ranks);
    expect_told_once(text, start_job(arguments));
  }
};

}  // namespace gemel::testing
