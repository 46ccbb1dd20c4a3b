#include "frontends/cli/launch/launch_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "engine/base/error.h"
#include "frontends/cli/launch/hosts.h"
#include "frontends/cli/launch/mpirun.h"
#include "frontends/cli/launch/mpirun_environment.h"

namespace gemel::cli {
namespace {

std::vector<std::string> names_of(const std::vector<Host>& hosts) {
  std::vector<std::string> out;
  for (const Host& host : hosts) out.push_back(host.name);
  return out;
}

/// Whether the same program is on all machines, by what it says of its version there.
bool check_program(const char* what, const std::vector<Host>& hosts, const Arguments& command) {
  const std::vector<HostAnswer> answers = ask_hosts(hosts, command);
  std::vector<std::string> wrong;
  for (const HostAnswer& a : answers) {
    if (!a.is_good())
      wrong.push_back(fmt::format("{}: {}", a.host, a.why()));
    else if (a.first_line() != answers.front().first_line())
      wrong.push_back(fmt::format("{} has {}", a.host, a.first_line()));
  }
  if (wrong.empty()) return print_row(what, true, answers.front().first_line());
  if (answers.front().is_good()) wrong.insert(wrong.begin(), fmt::format("{} has {}", answers.front().host, answers.front().first_line()));
  return print_row(what, false, fmt::format("{}", fmt::join(wrong, "; ")));
}

}  // namespace

bool print_row(const char* what, bool fits, const std::string& detail) {
  fmt::print("{:<18} {:<13} {}\n", what, fits ? "fits" : "does not fit", detail);
  std::fflush(stdout);  // the next row may be another process's
  return fits;
}

int check_launch(const LaunchOptions& launch) {
  std::vector<Host> hosts = launch.hosts;
  if (hosts.empty()) hosts.push_back({"localhost", launch.ranks});
  const std::vector<HostAnswer> silent = silent_hosts(hosts);
  bool fits = print_row("hosts", silent.empty(), silent.empty() ? fmt::format("{}", fmt::join(names_of(hosts), ", ")) : text_of_silence(silent));
  if (const auto why = mpirun_cannot()) fits = print_row("MPI", false, *why);
  fits = fits && check_program("MPI", hosts, {"mpirun", "--version"});
  fits = fits && check_program("program", hosts, {std::filesystem::read_symlink("/proc/self/exe").string(), "--version"});
  if (!fits && !stop_asked()) {
    fmt::print("devices, builds, data and checkpoint folder are looked at once these fit\n");
    return 1;
  }
  // Without its words on a rank that fails: what does not fit is told.
  const JobEnd end = run_mpirun(launch, {.checks = true});
  if (stop_asked()) throw Error("launch: interrupted");
  if (end.status != 0 && end.status != kDoesNotFit) print_row("ranks", false, "they came to no end: " + text_of(end, launch));
  return end.status == 0 ? 0 : 1;
}

}  // namespace gemel::cli
