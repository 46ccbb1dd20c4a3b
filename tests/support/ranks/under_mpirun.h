// Tests on ranks that are processes: they start themselves again under mpirun.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

namespace gemel::testing {

inline bool has_mpirun() { return ::access("/usr/bin/mpirun", X_OK) == 0; }

struct SaidByRanks {
  int status;
  std::string text;
};
/// Runs the test on 3 ranks. One that hangs is ended. @param before  of the program's command
inline SaidByRanks run_under_mpirun(const std::string& test, const std::string& before = "") {
  const std::string command = fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 /usr/bin/mpirun --oversubscribe --timeout 120 -np 3 {} '{}' "
      "--gtest_filter={} --gtest_color=no </dev/null 2>&1",
      before, std::filesystem::read_symlink("/proc/self/exe").string(), test);
  std::FILE* const job = ::popen(command.c_str(), "r");
  if (!job) return {-1, "no process can be started"};
  std::string said;
  for (std::array<char, 4096> part; const auto got = std::fread(part.data(), 1, part.size(), job);) said.append(part.data(), got);
  return {::pclose(job), said};
}

/// The same; each rank must pass.
inline void expect_passed_under_mpirun(const std::string& test, const std::string& before = "") {
  const auto [status, said] = run_under_mpirun(test, before);
  EXPECT_EQ(status, 0) << said;
  std::size_t passed = 0;
  for (std::size_t i = said.find("[  PASSED  ] 1 test"); i != said.npos; i = said.find("[  PASSED  ] 1 test", i + 1)) ++passed;
  EXPECT_EQ(passed, 3u) << "a rank was skipped: " << said;
}

}  // namespace gemel::testing
