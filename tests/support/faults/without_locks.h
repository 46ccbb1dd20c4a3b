// File systems without locks, as some network mounts are.
#pragma once

namespace gemel::testing {

/// While it lives, every flock of this process fails with the error.
class WithoutLocks {
 public:
  explicit WithoutLocks(int error);
  ~WithoutLocks();
  WithoutLocks(const WithoutLocks&) = delete;
  WithoutLocks& operator=(const WithoutLocks&) = delete;
};

}  // namespace gemel::testing
