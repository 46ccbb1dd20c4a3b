#include "engine/base/resource_limits.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

namespace gemel {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kNoLimit = AllowedMemory::kNoLimit;

/// Whether a list such as "rw,cpu,cpuacct" has a word.
bool has_word(const std::string& list, std::string_view wanted) {
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');)
    if (word == wanted) return true;
  return false;
}

/// A mounted tree of control groups: of version 2 there is one for all controllers, of version 1 one for each, or for some together.
struct Hierarchy {
  bool is_second = false;
  std::string options;  // of version 1: its controllers among them
  std::string root;     // the group that is mounted: a container's own, often
  std::string mounted_at;

  bool has(std::string_view controller) const { return is_second || has_word(options, controller); }
};

/// Lines of mountinfo: "31 23 0:28 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu".
std::vector<Hierarchy> hierarchies(const fs::path& root) {
  std::vector<Hierarchy> out;
  std::ifstream in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word, type;
    Hierarchy h;
    words >> word >> word >> word >> h.root >> h.mounted_at;
    while (words >> word && word != "-") continue;
    words >> type >> word >> h.options;
    h.is_second = type == "cgroup2";
    if (h.is_second || type == "cgroup") out.push_back(h);
  }
  return out;
}

/// This process's group, by lines of /proc/self/cgroup: "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1.
std::optional<std::string> own_group(const fs::path& root, const Hierarchy& h, std::string_view controller) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (h.is_second ? controllers.empty() : has_word(controllers, controller)) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// A group's path below the one that is mounted; nothing where that one is not above it.
std::optional<fs::path> below(const std::string& group, const std::string& mounted) {
  if (mounted == "/") return fs::path(group).relative_path();
  if (mounted.starts_with("/..")) return fs::path();  // above what this process sees of the tree: its limits hold too
  if (group == mounted || group.starts_with(mounted + "/")) return fs::path(group.substr(mounted.size())).relative_path();
  return std::nullopt;
}

/// Calls with the folder of each of this process's groups that has the controller, from its own up to the one that is mounted: the limits of all hold.
void each_group(const fs::path& root, std::string_view controller, const std::function<void(const fs::path& folder, bool is_second)>& look) {
  for (const Hierarchy& h : hierarchies(root)) {
    if (!h.has(controller)) continue;
    const auto own = own_group(root, h, controller);
    const auto path = own ? below(*own, h.root) : std::nullopt;
    if (!path) continue;
    const fs::path mount = root / fs::path(h.mounted_at).relative_path();
    for (fs::path group = *path; !group.empty(); group = group.parent_path()) look(mount / group, h.is_second);
    look(mount, h.is_second);
  }
}

/// The first number of a file, if it is one above 0: "max" and -1 are no limit.
std::optional<std::int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::int64_t value = 0;
  return in >> value && value > 0 ? std::optional(value) : std::nullopt;
}

/// The number after a word that begins a line.
std::optional<std::int64_t> number_after(std::string_view word, const fs::path& file) {
  std::ifstream in(file);
  for (std::string key; in >> key; in.ignore(1 << 16, '\n'))
    if (std::int64_t value = 0; key == word && in >> value) return value;
  return std::nullopt;
}

/// Cores: time over the period in which it is granted.
std::optional<double> quota_of(const fs::path& group, bool is_second) {
  std::optional<std::int64_t> time, period;
  if (is_second) {
    std::ifstream in(group / "cpu.max");
    std::int64_t of = 0, in_all = 0;
    if (in >> of >> in_all) time = of, period = in_all;
  } else {
    time = number_in(group / "cpu.cfs_quota_us");
    period = number_in(group / "cpu.cfs_period_us");
  }
  if (!time || !period || *time <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*time) / static_cast<double>(*period);
}

/// Of this thread. A mask for fewer processors than the system counts is refused: it is asked for with ever larger ones.
std::vector<int> processors_of_mask() {
  constexpr int kMost = 1 << 20;
  for (int size = CPU_SETSIZE; size <= kMost; size *= 2) {
    std::vector<cpu_set_t> mask(static_cast<std::size_t>(size / CPU_SETSIZE));
    const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, mask.data()) == 0) {
      std::vector<int> out;
      for (int p = 0; p < size; ++p)
        if (CPU_ISSET_S(static_cast<std::size_t>(p), bytes, mask.data())) out.push_back(p);
      return out;
    }
    if (errno != EINVAL) break;
  }
  return {};
}

}  // namespace

int AllowedCores::granted() const {
  if (!quota) return of_machine;
  return static_cast<int>(std::clamp<double>(std::ceil(*quota - 1e-6), 1, std::numeric_limits<int>::max()));  // 3 of 1 are 3, whatever the division says
}

int AllowedCores::count() const { return std::min(granted(), processors.empty() ? of_machine : static_cast<int>(processors.size())); }

AllowedCores allowed_cores(const fs::path& root) {
  AllowedCores out;
  out.processors = processors_of_mask();
  out.of_machine = std::max({1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)), static_cast<int>(out.processors.size())});
  each_group(root, "cpu", [&](const fs::path& group, bool is_second) {
    if (const auto quota = quota_of(group, is_second)) out.quota = std::min(*quota, out.quota.value_or(*quota));
  });
  return out;
}

void bind_process(std::span<const int> processors) {
  if (processors.empty()) return;
  std::vector<cpu_set_t> mask(static_cast<std::size_t>(std::ranges::max(processors) / CPU_SETSIZE + 1));
  const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
  for (const int p : processors) CPU_SET_S(static_cast<std::size_t>(p), bytes, mask.data());
  std::error_code none;
  for (const auto& task : fs::directory_iterator("/proc/self/task", none))
    ::sched_setaffinity(static_cast<pid_t>(std::stol(task.path().filename().string())), bytes, mask.data());
}

std::int64_t AllowedMemory::bytes() const { return std::min({limit, free, of_machine}); }

AllowedMemory allowed_memory(const fs::path& root) {
  AllowedMemory out;
  const auto lower = [&](std::optional<std::int64_t> limit) { out.limit = std::min(out.limit, limit.value_or(kNoLimit)); };
  each_group(root, "memory", [&](const fs::path& group, bool is_second) {
    if (is_second) {
      lower(number_in(group / "memory.max"));
      lower(number_in(group / "memory.high"));  // beyond it a process crawls
    } else {
      lower(number_in(group / "memory.limit_in_bytes"));
      lower(number_after("hierarchical_memory_limit", group / "memory.stat"));  // that of groups above the mounted one too
    }
  });
  constexpr std::int64_t kKilobyte = 1024;
  if (const auto total = number_after("MemTotal:", root / "proc/meminfo")) out.of_machine = *total * kKilobyte;
  if (const auto available = number_after("MemAvailable:", root / "proc/meminfo")) out.free = *available * kKilobyte;
  return out;
}

}  // namespace gemel
