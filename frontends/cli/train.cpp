#include "frontends/cli/command.h"
#include "frontends/cli/train_run.h"

namespace gemel::cli {

int train(const Arguments& arguments) {
  Arguments shown{"gemel", "train"};
  shown.insert(shown.end(), arguments.begin(), arguments.end());
  return TrainRun(parse_train_options(arguments), std::move(shown)).run();
}

}  // namespace gemel::cli
