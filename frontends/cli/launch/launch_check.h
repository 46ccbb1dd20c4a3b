// gemel launch --check: whether a job could run, in a table of what fits and what does not. The launcher looks at hosts and MPI, the ranks that it
// starts then at the rest.
#pragma once
#include <string>

#include "frontends/cli/launch/launch_options.h"

namespace gemel::cli {

/// @return 0 where all fits
int check_launch(const Launch& launch);
/// The exit status of ranks that told what does not fit; another one is that of ranks that could not.
constexpr int kDoesNotFit = 3;
/// Of a rank that a check started: does not train. @return 0 where all fits, or kDoesNotFit
int check_ranks(const TrainOptions& options);

/// A row of the table, on standard output. @return whether it fits
bool print_row(const char* what, bool fits, const std::string& detail);

}  // namespace gemel::cli
