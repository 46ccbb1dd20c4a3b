#include "engine/base/machine_facts.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>

namespace gemel {
namespace {

/// The value of a line `KEY=value` of /etc/os-release, without its quotes.
std::string of_distribution(const std::string& key) {
  std::ifstream in("/etc/os-release");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key + "=")) continue;
    std::string value = line.substr(key.size() + 1);
    std::erase(value, '"');
    return value;
  }
  return "";
}

}  // namespace

std::string of_processor(std::string_view key) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key))
      if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "";
}

std::string processor_name() { return of_processor("model name"); }

std::string system_name() {
  utsname system{};
  ::uname(&system);
  std::string name = of_distribution("PRETTY_NAME");
  if (name.empty()) name = "a distribution without /etc/os-release";
  return fmt::format("{}, {} {}, {}", name, system.sysname, system.release, system.machine);
}

}  // namespace gemel
