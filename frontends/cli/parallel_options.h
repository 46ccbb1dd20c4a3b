// The options of runs that several ranks share.
#pragma once
#include <optional>
#include <string>

#include "frontends/cli/arguments.h"
#include "parallel/collectives/choice.h"
#include "parallel/ddp/reducer.h"
#include "parallel/failure_watch.h"

namespace gemel::cli {

struct ParallelOptions {
  std::string style;  // "ddp"; empty: one process
  parallel::ReducerOptions reducer;
  std::optional<parallel::Algorithm> collective;
  parallel::WatchOptions watch;
};

void add_parallel_options(po::options_description& options);
/// @throws UsageError
ParallelOptions parallel_options(const po::variables_map& values);

}  // namespace gemel::cli
