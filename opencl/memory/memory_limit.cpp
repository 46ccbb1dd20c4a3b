#include "opencl/memory/memory_limit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/resource_limits.h"

namespace gemel::opencl {
namespace {

constexpr std::int64_t kNoLimit = AllowedMemory::kNoLimit;

/// The soft limit of that name in /proc/self/limits.
std::int64_t process_limit(const std::filesystem::path& root, std::string_view name) {
  std::ifstream limits(root / "proc/self/limits");
  for (std::string line; std::getline(limits, line);)
    if (std::int64_t limit = 0; line.starts_with(name) && std::istringstream(line.substr(name.size())) >> limit) return limit;  // "unlimited" is no number
  return kNoLimit;
}

/// A limit of what a process may map.
struct MapLimit {
  std::string_view name, text, option;
  int used;               // which field of /proc/self/statm counts against it
  std::int64_t to_start;  // bytes: seen to suffice for PoCL, without the stacks of its threads
};
constexpr MapLimit kMapLimits[] = {{"Max address space", "address space", "-v", 0, std::int64_t{1200} << 20},
                                   {"Max data size", "data size", "-d", 5, std::int64_t{400} << 20}};

/// What the limit leaves beside what is mapped.
std::int64_t bytes_left(const std::filesystem::path& root, const MapLimit& of) {
  const std::int64_t limit = process_limit(root, of.name);
  if (limit == kNoLimit) return kNoLimit;
  std::ifstream fields(root / "proc/self/statm");
  std::int64_t pages = 0;
  for (int i = 0; i <= of.used; ++i) fields >> pages;
  return std::max<std::int64_t>(0, limit - pages * ::sysconf(_SC_PAGESIZE));
}

std::int64_t unmapped_bytes(const std::filesystem::path& root) {
  std::int64_t left = kNoLimit;
  for (const MapLimit& of : kMapLimits) left = std::min(left, bytes_left(root, of));
  return left;
}

/// For what each of the process's devices holds: the compiler needs some too.
std::int64_t room_to_map(const std::filesystem::path& root, int devices) {
  constexpr std::int64_t kOfCompiler = std::int64_t{256} << 20;
  const std::int64_t unmapped = unmapped_bytes(root);
  return unmapped == kNoLimit ? kNoLimit : std::max<std::int64_t>(1, (unmapped - kOfCompiler) / devices);
}

}  // namespace

void check_process_limits(const std::filesystem::path& root) {
  constexpr std::int64_t kOfThread = std::int64_t{8} << 20;    // bytes of a stack, as is usual
  constexpr std::int64_t kLeastStack = std::int64_t{1} << 20;  // bytes: kernels hold up to 256 KiB in private memory
  constexpr std::int64_t kLeastFiles = 64;                     // PoCL and the linker that it starts have some 20 open
  const int threads = allowed_cores(root).count();
  for (const MapLimit& of : kMapLimits) {
    const std::int64_t needed = of.to_start + kOfThread * threads, left = bytes_left(root, of);
    if (left < needed)
      throw DeviceError(
          fmt::format("{}: its limit (ulimit {}) leaves {} MiB, and OpenCL drivers end the process where they find less than {}; "
                      "accepted: a higher limit",
                      of.text, of.option, left >> 20, needed >> 20));
  }
  if (const std::int64_t stack = process_limit(root, "Max stack size"); stack < kLeastStack)
    throw DeviceError(fmt::format(
        "stack size: its limit (ulimit -s) is {} KiB, and kernels of CPU devices end the process where they find too little; accepted: {} KiB or more",
        stack >> 10, kLeastStack >> 10));
  if (const std::int64_t files = process_limit(root, "Max open files"); files < kLeastFiles)
    throw DeviceError(fmt::format("open files: their limit (ulimit -n) is {}; accepted: {} or more, which drivers, caches and data need", files, kLeastFiles));
}

std::int64_t default_memory_limit(const DeviceProfile& p, MemorySharers sharers, const std::filesystem::path& root) {
  const std::int64_t device = p.global_bytes > 0 ? p.global_bytes : kNoLimit;
  if (!p.shares_host_memory && !p.is_cpu()) return device;
  return std::min(std::min(device, allowed_memory(root).bytes()) / std::max(1, sharers.of_host), room_to_map(root, std::max(1, sharers.of_process)));
}

}  // namespace gemel::opencl
