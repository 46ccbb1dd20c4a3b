// gemel train: its options, and what comes before and after the run.
#include "frontends/cli/command.h"
#include "frontends/cli/commands/specs.h"
#include "frontends/cli/job/job.h"
#include "frontends/cli/launch/launch_check.h"
#include "frontends/cli/options/run_spec.h"
#include "frontends/cli/run/train_run.h"

namespace gemel::cli {

Json train_spec(const Arguments& arguments) { return parse_train_options(arguments).spec; }

int train(const Arguments& arguments) {
  require_launched(arguments);
  const TrainOptions options = parse_train_options(arguments);
  if (Launched::here().checks) return check_ranks(options);
  return run_job(options.parallel, options.common.device, [&](Job& job) { return TrainRun(options, arguments, job).run(); });
}

}  // namespace gemel::cli
