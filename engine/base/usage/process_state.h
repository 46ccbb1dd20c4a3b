// Reads the state of processes from /proc: who started whom, and what they use.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace gemel {

/// Returns the children of a process, of all its threads, with those that have ended but were not waited for: Open MPI 6 starts ranks in a thread of its own.
std::vector<pid_t> children_of(pid_t process);
/// Tells if a process has a handler for a signal now.
bool has_handler(pid_t process, int signal);

struct ProcessUsage {
  double processor_seconds = 0;     // since the process began, with those of children that have ended and were waited for
  std::int64_t resident_bytes = 0;  // now
};

/// Returns the usage of a process; zeros if it is gone.
ProcessUsage usage_of(pid_t process);
/// Returns the sum over a process and all its descendants.
ProcessUsage usage_of_tree(pid_t process);
/// Returns the processor time of all programs since the machine started, with what a hypervisor took from it; empty where the system does not tell.
std::optional<double> busy_seconds_of_machine();

}  // namespace gemel
