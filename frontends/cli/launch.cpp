// gemel launch: starts the ranks of a job with mpirun, and passes Ctrl-C on as the request to stop and save.
#include "frontends/cli/check.h"
#include "frontends/cli/command.h"
#include "frontends/cli/launch_hosts.h"
#include "frontends/cli/launch_options.h"
#include "frontends/cli/launch_restarts.h"
#include "frontends/cli/mpirun.h"

namespace gemel::cli {

int launch(const Arguments& arguments) {
  const Launch job = parse_launch(arguments);
  note_stop_requests();
  if (job.checks) return check_launch(job);
  require_answers(job.hosts);
  if (job.restarts) return RestartedJob(job).run();
  return exit_status(run_mpirun(job, {}), job);
}

}  // namespace gemel::cli
