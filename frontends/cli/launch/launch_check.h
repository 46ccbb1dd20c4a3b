// gemel launch --check: checks if a job could run, and prints a table. The launcher checks hosts and MPI; ranks that it starts check the rest.
#pragma once
#include <string>

#include "frontends/cli/launch/launch_options.h"

namespace gemel::cli {

/// Checks a launch.
/// @return 0 if everything fits
int check_launch(const LaunchOptions& launch);
/// Exit status of ranks that reported what does not fit; any other one means that they could not check.
constexpr int kDoesNotFit = 3;
/// Runs the check in a rank, without training.
/// @return 0 if everything fits, else kDoesNotFit
int check_ranks(const TrainOptions& options);

/// Prints a row of the table on standard output.
/// @return `fits`
bool print_row(const char* what, bool fits, const std::string& detail);

}  // namespace gemel::cli
