#include "opencl/memory_limit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

#include "engine/base/error.h"

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

/// What the limit of the address space (`ulimit -v`) leaves beside what is mapped.
std::int64_t unmapped_bytes(const std::filesystem::path& root) {
  constexpr std::string_view kName = "Max address space";
  std::ifstream limits(root / "proc/self/limits");
  for (std::string line; std::getline(limits, line);) {
    std::int64_t limit = 0, pages = 0;
    if (!line.starts_with(kName) || !(std::istringstream(line.substr(kName.size())) >> limit)) continue;  // "unlimited" is no number
    std::ifstream(root / "proc/self/statm") >> pages;
    return std::max<std::int64_t>(0, limit - pages * ::sysconf(_SC_PAGESIZE));
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

/// For what each of the process's devices holds: the compiler needs some too.
std::int64_t room_in_address_space(const std::filesystem::path& root, int devices) {
  constexpr std::int64_t kOfCompiler = std::int64_t{256} << 20;
  const std::int64_t unmapped = unmapped_bytes(root);
  return unmapped == kNoLimit ? kNoLimit : std::max<std::int64_t>(1, (unmapped - kOfCompiler) / devices);
}

}  // namespace

void check_address_space(const std::filesystem::path& root) {
  constexpr std::int64_t kToStart = std::int64_t{1200} << 20, kOfThread = std::int64_t{8} << 20;  // bytes: seen to suffice for PoCL; of a stack
  const std::int64_t needed = kToStart + kOfThread * ::sysconf(_SC_NPROCESSORS_CONF), left = unmapped_bytes(root);
  if (left < needed)
    throw DeviceError(fmt::format("address space: its limit (ulimit -v) leaves {} MiB, and OpenCL drivers end the process where they find less than {}; "
                                  "accepted: a higher limit", left >> 20, needed >> 20));
}

std::int64_t default_memory_limit(const DeviceProfile& p, MemorySharers sharers, const std::filesystem::path& root) {
  const std::int64_t device = p.global_bytes > 0 ? p.global_bytes : kNoLimit;
  if (!p.shares_host_memory && !p.is_cpu()) return device;
  return std::min(std::min({device, control_group_limit(root), available_host_bytes(root)}) / std::max(1, sharers.of_host),
                  room_in_address_space(root, std::max(1, sharers.of_process)));
}

}  // namespace gemel::opencl
