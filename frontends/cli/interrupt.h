// Ctrl-C and TERM: noted, so that the step under way is finished and saved. A second one ends the process at once.
#pragma once

namespace gemel::cli {

/// Notes signals for its lifetime.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static bool interrupted();
};

}  // namespace gemel::cli
