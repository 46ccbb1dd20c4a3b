// Detects lost standard output, on a full disk or a closed pipe, as a failure of the program.
#pragma once
#include <functional>

namespace gemel::cli {

/// Runs the body, or prints the help that it asks for, and checks that all output was written.
/// @return the body's exit status, 0 after help
/// @throws what the body threw; DataError if output was lost
int run_and_print(const std::function<int()>& body);

}  // namespace gemel::cli
