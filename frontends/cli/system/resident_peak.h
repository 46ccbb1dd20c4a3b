// The most memory of this process that was in RAM at once, as the kernel counts it: what a user sees in `top`.
#pragma once
#include <cstdint>

namespace gemel::cli {

/// From its construction on. Linux alone keeps these counts; elsewhere there are none.
class ResidentPeak {
 public:
  ResidentPeak();
  /// Bytes at the peak since construction, less those at construction; 0 where nothing counts them.
  std::int64_t bytes() const;

 private:
  std::int64_t before_ = 0;
};

}  // namespace gemel::cli
