#include "frontends/cli/system/process_state.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace gemel::cli {

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> out;
  std::error_code none;
  std::filesystem::directory_iterator threads("/proc/" + std::to_string(process) + "/task", none);
  for (; threads != std::filesystem::directory_iterator(); threads.increment(none)) {
    std::ifstream children(threads->path() / "children");
    for (pid_t child; children >> child;) out.push_back(child);
  }
  std::ranges::sort(out);  // by number: threads are not listed in the order of what they started
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

bool has_handler(pid_t process, int signal) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;)
    if (std::uint64_t caught = 0; word == "SigCgt:" && status >> std::hex >> caught) return (caught >> (signal - 1)) & 1;
  return false;
}

}  // namespace gemel::cli
