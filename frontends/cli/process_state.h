// What /proc says of another process.
#pragma once
#include <sys/types.h>

#include <vector>

namespace gemel::cli {

/// Processes that it has started and that live, whichever of its threads started them: Open MPI 6 starts ranks in one of its own.
std::vector<pid_t> children_of(pid_t process);
/// Whether it has a handler for the signal by now.
bool catches(pid_t process, int signal);

}  // namespace gemel::cli
