// What processes a process has started.
#pragma once
#include <sys/types.h>

#include <vector>

namespace gemel::cli {

/// Those that live, whichever of its threads started them: Open MPI 6 starts ranks in one of its own.
std::vector<pid_t> children_of(pid_t process);

}  // namespace gemel::cli
