// TensorBytes: several tensors as one piece of host memory, for messages; and how running statistics of several workers become one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/value.h"

namespace gemel::distributed {

class TensorBytes {
 public:
  explicit TensorBytes(Values values) : values_(std::move(values)) {}
  std::int64_t bytes() const;
  /// Waits for the device.
  std::vector<std::byte> read() const;
  void write(std::span<const std::byte> from) const;

  /// The mean over workers' statistics by weight, in double. Of integers the first.
  /// @param weights  add up to 1
  std::vector<std::byte> mean(std::span<const std::span<const std::byte>> of_workers, std::span<const double> weights) const;
  /// Adds to `now` what a worker changed.
  void add_change(std::span<std::byte> now, std::span<const std::byte> before, std::span<const std::byte> after) const;

 private:
  Values values_;
};

}  // namespace gemel::distributed
