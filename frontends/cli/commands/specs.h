// What a command line means as a spec, for what starts commands.
#pragma once
#include "frontends/cli/command.h"
#include "frontends/cli/options/run_spec.h"

namespace gemel::cli {

/// @param arguments  behind the command's name  @throws UsageError as the command does
Json train_spec(const Arguments& arguments);
Json eval_spec(const Arguments& arguments);
Json bench_spec(const Arguments& arguments);

}  // namespace gemel::cli
