#include "engine/base/usage/process_state.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <system_error>

namespace gemel {
namespace {

std::string folder_of(pid_t process) { return "/proc/" + std::to_string(process); }

}  // namespace

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> out;
  std::error_code none;
  std::filesystem::directory_iterator threads(folder_of(process) + "/task", none);
  for (; threads != std::filesystem::directory_iterator(); threads.increment(none)) {
    std::ifstream children(threads->path() / "children");
    for (pid_t child; children >> child;) out.push_back(child);
  }
  std::ranges::sort(out);  // by number: threads are not listed in the order of what they started
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

bool has_handler(pid_t process, int signal) {
  std::ifstream status(folder_of(process) + "/status");
  for (std::string word; status >> word;)
    if (std::uint64_t caught = 0; word == "SigCgt:" && status >> std::hex >> caught) return (caught >> (signal - 1)) & 1;
  return false;
}

ProcessUsage usage_of(pid_t process) {
  std::ifstream file(folder_of(process) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(')');  // a program's name may hold spaces and parentheses
  if (name_end == line.npos) return {};
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  constexpr int kBeforeTimes = 11, kBetween = 6;  // fields: state ... cmajflt; then four times; then priority ... vsize
  for (int i = 0; i < kBeforeTimes; ++i) fields >> skipped;
  std::int64_t ticks = 0, pages = 0;
  for (int i = 0; i < 4; ++i) {  // user, system, and both of the children
    std::int64_t one = 0;
    fields >> one;
    ticks += one;
  }
  for (int i = 0; i < kBetween; ++i) fields >> skipped;
  fields >> pages;
  return {static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK)), pages * ::sysconf(_SC_PAGESIZE)};
}

ProcessUsage usage_of_tree(pid_t process) {
  ProcessUsage sum = usage_of(process);
  for (const pid_t child : children_of(process)) {
    const ProcessUsage one = usage_of_tree(child);
    sum.processor_seconds += one.processor_seconds;
    sum.resident_bytes += one.resident_bytes;
  }
  return sum;
}

std::optional<double> busy_seconds_of_machine() {
  std::ifstream file("/proc/stat");
  std::string name;
  file >> name;
  std::array<std::int64_t, 8> ticks{};  // user, nice, system, idle, iowait, irq, softirq, steal
  for (std::int64_t& one : ticks) file >> one;
  if (!file || name != "cpu") return std::nullopt;
  constexpr std::size_t kIdle = 3, kWaits = 4;
  ticks[kIdle] = ticks[kWaits] = 0;
  return static_cast<double>(std::reduce(ticks.begin(), ticks.end())) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace gemel
