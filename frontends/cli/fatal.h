// The end where a library gives up: a line, as for any other failure.
#pragma once

namespace gemel::cli {

/// From now on an exception that nothing catches, as where memory runs out in a thread of a driver, and a library's abort() end the program with
/// one line on standard error and exit status 1 (of a rank as `Launched::failed`, or as after a signal), and not by a signal. What the library said
/// stands above it.
void end_with_a_line();
/// Has Ctrl-\ end the process at once, whatever handler a driver's compiler sets meanwhile: LLVM's returns from a signal that was sent, and the
/// process would go on. Before any other thread starts.
void end_at_quit();

}  // namespace gemel::cli
