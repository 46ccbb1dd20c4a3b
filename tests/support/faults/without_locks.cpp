#include "tests/support/faults/without_locks.h"

#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace {

std::atomic<int> refusal = 0;

}  // namespace

/// In place of the C library's, which is the same but for the refusal.
extern "C" int flock(int file, int how) noexcept {
  if (const int error = refusal; error != 0) {
    errno = error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, file, how));
}

namespace gemel::testing {

WithoutLocks::WithoutLocks(int error) { refusal = error; }
WithoutLocks::~WithoutLocks() { refusal = 0; }

}  // namespace gemel::testing
