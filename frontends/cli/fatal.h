// Ends the program with one line when a library gives up, as for any other failure.
#pragma once

namespace gemel::cli {

/// Handles uncaught exceptions, such as lack of memory in a driver's thread, and abort() in a library: the program then ends with one line on standard error
/// and exit status 1 (of a rank as `Launched::failed`, or as after a signal) instead of a signal. What the library printed stands above the line.
void end_with_a_line();
/// Makes Ctrl-\ end the process at once, even if a driver's compiler sets a handler later: LLVM's handler returns from a signal that was sent, and the process
/// would go on. Call before any other thread starts.
void end_at_quit();

}  // namespace gemel::cli
