// gemel train: its options, and what comes before and after the run.
#include "frontends/cli/command.h"
#include "frontends/cli/train_run.h"

namespace gemel::cli {

int train(const Arguments& arguments) { return TrainRun(parse_train_options(arguments), arguments).run(); }

}  // namespace gemel::cli
