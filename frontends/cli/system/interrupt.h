// Ctrl-C, TERM and the loss of the terminal: noted, and answered on standard error, so that the step under way is finished and saved.
// A second one, half a second later or more, ends the process at once.
#pragma once

namespace gemel::cli {

/// Notes signals for its lifetime. A signal that the process was started to ignore (nohup) stays ignored; so does, meanwhile, a
/// closed pipe, of which the writer learns by an error.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static bool interrupted();
  /// From now on this process notes and does not answer: of a job's ranks the first does.
  static void leave_answer_to_another();
};

}  // namespace gemel::cli
