// gemel launch: starts the ranks of a job with mpirun, and passes Ctrl-C on as the request to stop and save.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/error.h"
#include "frontends/cli/command.h"
#include "frontends/cli/launch/hosts.h"
#include "frontends/cli/launch/launch_check.h"
#include "frontends/cli/launch/launch_options.h"
#include "frontends/cli/launch/mpirun.h"
#include "frontends/cli/launch/mpirun_environment.h"
#include "frontends/cli/launch/restarts.h"
#include "frontends/cli/system/console.h"
#include "parallel/transport/mpi_communicator.h"

namespace gemel::cli {
namespace {

/// Each of its processes would start the same job, and all write the same files.
void refuse_within_a_job() {
  const auto outer = parallel::mpi_launch();
  if (outer && outer->size > 1)
    throw UsageError(
        fmt::format("launch: it is one of {} processes that mpirun started; accepted: gemel launch by itself, or mpirun with gemel train; where no mpirun did, "
                    "`gemel doctor rank-variables` says which variables to unset",
                    outer->size));
}

}  // namespace

int launch(const Arguments& arguments) {
  const LaunchOptions job = parse_launch(arguments);
  refuse_within_a_job();
  note_stop_requests();
  if (const std::vector<std::string> hidden = hide_other_placements(); !hidden.empty())
    say("launch: {} {} hidden from mpirun: --np and --hosts say where processes run\n", fmt::join(hidden, ", "), hidden.size() == 1 ? "is" : "are");
  if (job.checks) return check_launch(job);
  if (const auto why = mpirun_cannot()) throw Error("launch: " + *why);
  require_answers(job.hosts);
  if (job.restarts) return RestartedJob(job).run();
  return exit_status(run_mpirun(job, {}), job);
}

}  // namespace gemel::cli
