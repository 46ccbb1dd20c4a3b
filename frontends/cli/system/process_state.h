// What /proc says of a process.
#pragma once
#include <sys/types.h>

#include <vector>

namespace gemel::cli {

/// Its children, also those that have ended and are not waited for, whichever of its threads they belong to: Open MPI 6 starts ranks in a thread of
/// its own.
std::vector<pid_t> children_of(pid_t process);
/// Whether it has a handler for the signal by now.
bool has_handler(pid_t process, int signal);

}  // namespace gemel::cli
