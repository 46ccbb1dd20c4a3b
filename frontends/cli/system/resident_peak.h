// ResidentPeak: the peak resident memory of this process as the kernel counts it, which a user sees in `top`.
#pragma once
#include <cstdint>

namespace gemel::cli {

/// Measures from its construction on. Only Linux has these counts.
class ResidentPeak {
 public:
  ResidentPeak();
  /// Bytes at the peak since construction, less those at construction; 0 where there are no counts.
  std::int64_t bytes() const;

 private:
  std::int64_t before_ = 0;
};

}  // namespace gemel::cli
