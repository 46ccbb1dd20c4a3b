// Standard output that is lost, on a full disk or a closed pipe, is a failure of the program that printed.
#pragma once
#include <functional>

namespace gemel::cli {

/// Runs the body, or the help that it asks for, and sees that what was printed has arrived.
/// @return the body's exit status, 0 after help  @throws what the body threw; DataError where a part of what was printed is lost
int run_and_print(const std::function<int()>& body);

}  // namespace gemel::cli
