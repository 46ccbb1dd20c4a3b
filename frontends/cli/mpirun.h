// mpirun, which starts the ranks of a job: what it is called with, and how it ends.
#pragma once
#include <string>
#include <vector>

#include "frontends/cli/launch_options.h"
#include "frontends/cli/launched.h"

namespace gemel::cli {

/// From here on Ctrl-C, TERM and the loss of the terminal are noted: the first one asks the job under way to stop and save, another ends it.
void note_stop_requests();
bool stop_asked();

/// Starts the job's ranks once and waits for their end. Where one was lost, what does not end by itself is ended some seconds later.
/// @return the exit status of the first rank that failed, which is 1 where no rank said why (`Launched::failed`), 128 and the number of the signal that ended one; 0 where none did
/// @throws Error where mpirun cannot be started
int run_mpirun(const Launch& launch, const Launched& launched);

/// What `gemel launch` ends with where mpirun ended so. @throws Error where no rank said why
int exit_status(int of_mpirun, const Launch& launch);

}  // namespace gemel::cli
