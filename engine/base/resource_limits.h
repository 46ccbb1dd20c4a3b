// Cores and memory that this process may use: an affinity mask, a container or a scheduler may grant less than the machine has.
// No other file asks the system: a thread pool that is sized by the machine has too many threads for the cores that are granted.
#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace gemel {

struct AllowedCores {
  std::vector<int> processors;  // ascending; the affinity mask of this thread, which Linux keeps within the cpuset of its cgroup
  std::optional<double> quota;  // cores' worth of time that the cgroups grant, such as 1.5; empty: no quota
  int of_machine = 1;           // processors online

  /// Number of threads that can compute at the same time, at least 1. A fraction of a quota rounds up.
  int count() const;
  int granted() const;  // by the quota alone, without the mask
  bool is_whole_machine() const { return count() >= of_machine; }
};

/// Limits on cores. @param root  folder that holds proc, sys and the cgroups; the mask is always that of the calling thread
AllowedCores allowed_cores(const std::filesystem::path& root = "/");

/// Binds each thread of this process, and by inheritance those that they start, to some processors. Without effect where the system refuses.
void bind_process(std::span<const int> processors);

struct AllowedMemory {
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

  std::int64_t limit = kNoLimit;       // bytes: the smallest limit of the cgroups, including the one from which on they throttle (memory.high)
  std::int64_t free = kNoLimit;        // bytes of the machine that programs can get without swapping
  std::int64_t of_machine = kNoLimit;  // bytes
  std::int64_t bytes() const;          // the smallest of the three
};

/// Limits on memory. @param root  folder that holds proc, sys and the cgroups
AllowedMemory allowed_memory(const std::filesystem::path& root = "/");

}  // namespace gemel
