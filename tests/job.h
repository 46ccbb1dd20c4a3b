// The gemel program on several ranks under mpirun.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>

#include "tests/program.h"

namespace gemel::testing {

class Job : public Program {
 protected:
  void SetUp() override {
    if (::access("/usr/bin/mpirun", X_OK) != 0) GTEST_SKIP() << "mpirun is not installed";
  }

  void on_ranks(int ranks) { launcher_ = {"mpirun", "--oversubscribe", "-np", std::to_string(ranks)}; }
  pid_t start_job(const std::vector<std::string>& arguments, const std::function<void()>& prepare = {}) {
    return start(arguments, [&] {
      for (const char* as_root : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) ::setenv(as_root, "1", 1);
      if (prepare) prepare();
    });
  }
  static std::vector<std::string> lenet(const std::vector<std::string>& more) {
    std::vector<std::string> all{"train", "--model", "lenet", "--limit", "40", "--batch-size", "12", "--optimizer", "momentum", "--eval-every", "0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// Whether it is there and has not ended.
  static bool runs(pid_t process) {
    const std::string stat = read_text("/proc/" + std::to_string(process) + "/stat");
    const auto name_end = stat.rfind(')');
    return name_end != stat.npos && stat.substr(name_end + 2, 1) != "Z";
  }
  static std::vector<pid_t> children_of(pid_t process) {
    std::vector<pid_t> out;
    std::ifstream children("/proc/" + std::to_string(process) + "/task/" + std::to_string(process) + "/children");
    for (pid_t p; children >> p;) out.push_back(p);
    return out;
  }
  static void expect_gone(const std::vector<pid_t>& ranks, std::chrono::seconds within = std::chrono::seconds(5)) {
    const auto end = std::chrono::steady_clock::now() + within;
    for (const pid_t p : ranks) {
      while (runs(p) && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      EXPECT_FALSE(runs(p)) << "a rank is left over";
    }
  }
  void expect_refused_on(int ranks, const std::vector<std::string>& arguments, const std::string& line) {
    on_ranks(ranks);
    const Outcome o = finish(start_job(arguments));
    EXPECT_NE(o.status, 0);
    EXPECT_EQ(std::ranges::count(lines_of(o.err), "gemel: " + line), 1) << o.err;
  }
};

}  // namespace gemel::testing
