// InterruptGuard: notes Ctrl-C, TERM and the loss of the terminal, so that the current step can be finished and saved, and confirms that on standard error. A
// second signal, at least half a second later, ends the process at once.
#pragma once

namespace gemel::cli {

/// Notes signals as long as it lives. Signals that were ignored when the process started (nohup) stay ignored. A closed pipe is ignored meanwhile: the writer
/// gets an error.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static bool interrupted();
  /// Makes this process note signals without a message: of a job's ranks only the first prints one.
  static void leave_answer_to_another();
};

}  // namespace gemel::cli
