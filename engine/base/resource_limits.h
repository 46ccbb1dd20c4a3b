// What this process may use of its machine: fewer cores and less memory than there are, where a mask, a container or a scheduler says so.
// Nothing else asks the system: who sizes a team of threads by the machine gets many threads on few cores.
#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

namespace gemel {

struct AllowedCores {
  std::vector<int> processors;  // that this thread may run on, ascending: its mask, which Linux keeps within the control groups' cpusets
  std::optional<double> quota;  // cores whose whole time the control groups grant, 1.5 for instance; nothing: all
  int of_machine = 1;           // processors that are switched on

  /// How many threads can compute at the same time: of a quota a fraction counts as one, since less than one thread there cannot be. At least 1.
  int count() const;
  int granted() const;  // by the quota alone, whatever the mask
  bool is_whole_machine() const { return count() >= of_machine; }
};

/// @param root  where proc, sys and the control groups lie; the mask is always this thread's
AllowedCores allowed_cores(const std::filesystem::path& root = "/");

struct AllowedMemory {
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

  std::int64_t limit = kNoLimit;       // bytes: the least that a control group of this process grants, or from which on one is held back
  std::int64_t free = kNoLimit;        // bytes: of the machine's, what programs can get without swapping
  std::int64_t of_machine = kNoLimit;  // bytes
  std::int64_t bytes() const;          // the least of them
};

AllowedMemory allowed_memory(const std::filesystem::path& root = "/");

}  // namespace gemel
