// Reads the state of processes from /proc.
#pragma once
#include <sys/types.h>

#include <vector>

namespace gemel::cli {

/// Returns the children of a process, of all its threads, with those that have ended but were not waited for: Open MPI 6 starts ranks in a thread of its own.
std::vector<pid_t> children_of(pid_t process);
/// Tells if a process has a handler for a signal now.
bool has_handler(pid_t process, int signal);

}  // namespace gemel::cli
