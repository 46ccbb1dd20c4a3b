// Runs mpirun, which starts the ranks of a job.
#pragma once
#include <string>
#include <vector>

#include "frontends/cli/job/launch_messages.h"
#include "frontends/cli/launch/launch_options.h"

namespace gemel::cli {

/// Notes Ctrl-C, TERM and the loss of the terminal from here on: the first one asks the running job to stop and save, another one ends it.
void note_stop_requests();
bool stop_asked();

/// The end of mpirun and of its ranks.
struct JobEnd {
  int status = 0;                       // mpirun's: of the first rank that failed, 128 plus the number of the signal that ended it, or one of Open MPI's own
  bool had_ranks = false;               // on this machine
  bool began = false;                   // a rank on this machine got past MPI's initialisation
  bool lost_early = false;              // a rank was lost before the job could go on without it
  std::vector<std::string> words = {};  // messages of Open MPI itself, which were not passed on

  static constexpr int kOfSignal = 128;  // added to a signal's number by mpirun and shells
  /// True if a signal ended a rank; `signal_text` is then "signal 9 (Killed) ended it".
  bool by_signal() const { return status > kOfSignal && had_ranks; }
  std::string signal_text() const;
};

/// Starts the job's ranks once and waits until they end. After a loss, ranks that do not end by themselves are ended some seconds later.
/// @throws Error if mpirun cannot be started
JobEnd run_mpirun(const LaunchOptions& launch, Launched launched);

/// Returns the exit status of `gemel launch` for an end of the job.
/// @throws Error if no rank has said why it failed
int exit_status(const JobEnd& end, const LaunchOptions& launch);
/// Describes an end: "mpirun ended with status 1 (Your job failed to map. ...); where no line above says why, Open MPI does to `mpirun ...`, and `gemel doctor`
/// looks for what is wrong here".
std::string text_of(const JobEnd& end, const LaunchOptions& launch);

}  // namespace gemel::cli
