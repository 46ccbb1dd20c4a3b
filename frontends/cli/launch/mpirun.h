// mpirun, which starts the ranks of a job: what it is called with, and how it ends.
#pragma once
#include <string>
#include <vector>

#include "frontends/cli/job/launch_messages.h"
#include "frontends/cli/launch/launch_options.h"

namespace gemel::cli {

/// From here on Ctrl-C, TERM and the loss of the terminal are noted: the first one asks the job under way to stop and save, another ends it.
void note_stop_requests();
bool stop_asked();

struct JobEnd {
  int status = 0;                       // mpirun's: of the first rank that failed, 128 and the number of the signal that ended it, or one of Open MPI's own
  bool had_ranks = false;               // on this machine
  bool began = false;                   // a rank here had got past the begin of MPI
  std::vector<std::string> words = {};  // Open MPI's own, which were not passed on

  static constexpr int kOfSignal = 128;  // what mpirun and shells add to its number
  /// Whether a signal ended a rank, whose `signal_text` is then "signal 9 (Killed) ended it".
  bool by_signal() const { return status > kOfSignal && had_ranks; }
  std::string signal_text() const;
};

/// Starts the job's ranks once and waits for their end. Where one was lost, what does not end by itself is ended some seconds later.
/// @throws Error where mpirun cannot be started
JobEnd run_mpirun(const Launch& launch, const Launched& launched);

/// What `gemel launch` ends with after such an end of the job. @throws Error where no rank has said why
int exit_status(const JobEnd& end, const Launch& launch);
/// "mpirun ended with status 1 (Your job failed to map. ...); where no line above says why, Open MPI does to `mpirun ...`, and `gemel doctor` looks for
/// what is wrong here"
std::string text_of(const JobEnd& end, const Launch& launch);

}  // namespace gemel::cli
