// The end where a library gives up: a line, as for any other failure.
#pragma once

namespace gemel::cli {

/// From now on an exception that nothing catches, as where memory runs out in a thread of a driver, and a library's abort() end the program with
/// exit status 1 and one line on standard error, and not by a signal. What the library said stands above it.
void end_with_a_line();

}  // namespace gemel::cli
