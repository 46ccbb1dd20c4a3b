#include "opencl/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace gemel::opencl {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

std::int64_t number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::int64_t value = 0;
  return in >> value && value > 0 ? value : kNoLimit;  // "max" reads as no number: no limit
}

std::int64_t available_host_bytes(const std::filesystem::path& root) {
  std::ifstream in(root / "proc/meminfo");
  for (std::string key; in >> key;) {
    std::int64_t kilobytes = 0;
    if (key == "MemAvailable:" && in >> kilobytes) return kilobytes * 1024;
    in.ignore(1 << 16, '\n');
  }
  return kNoLimit;
}

/// The least of the limits from a group up to the root: every one of them holds.
std::int64_t least_upwards(const std::filesystem::path& root, std::filesystem::path group, const char* file) {
  std::int64_t limit = number_in(root / file);
  for (; !group.empty(); group = group.parent_path()) limit = std::min(limit, number_in(root / group / file));
  return limit;
}

/// Lines of /proc/self/cgroup: "0::/path" is version 2, "7:memory:/path" version 1.
std::int64_t control_group_limit(const std::filesystem::path& root) {
  const std::filesystem::path second_version = root / "sys/fs/cgroup", first_version = second_version / "memory";
  std::int64_t limit = std::min(number_in(second_version / "memory.max"), number_in(first_version / "memory.limit_in_bytes"));
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || second + 2 > line.size()) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 2);
    if (controllers.empty()) limit = std::min(limit, least_upwards(second_version, group, "memory.max"));
    if (controllers == "memory") limit = std::min(limit, least_upwards(first_version, group, "memory.limit_in_bytes"));
  }
  return limit;
}

}  // namespace

std::int64_t default_memory_limit(const DeviceProfile& p, int sharers, const std::filesystem::path& root) {
  const std::int64_t device = p.global_bytes > 0 ? p.global_bytes : kNoLimit;
  if (!p.shares_host_memory && !p.is_cpu()) return device;
  return std::min({device, control_group_limit(root), available_host_bytes(root)}) / std::max(1, sharers);
}

}  // namespace gemel::opencl
