// What the machine can do at most, measured on the spot.
#pragma once
#include <cstdint>
#include <string>

#include "engine/core/op.h"
#include "engine/core/session.h"
#include "opencl/device/device.h"

namespace gemel::cli {

struct Roofline {
  double flops, bytes, reads;  // a second; bytes that are read and written, and that are only read

  /// The least time that a problem can take whose operands lie in memory: by its FLOPs, by all its bytes, by those that it reads.
  /// One whose operands a cache still holds may take less.
  double seconds(const Problem& problem) const;
};

/// Reading alone, from an array that is larger than the caches that a few cores use. As streams a group, far apart: a core waits for its few
/// outstanding lines, and memory gives less to one stream.
class ReadingAlone {
 public:
  explicit ReadingAlone(Session& session);
  void enqueue();
  std::int64_t bytes() const;

 private:
  opencl::Device& device_;
  opencl::Kernel& kernel_;
  std::int64_t groups_, stream_;  // floats of a stream
  Value array_, sums_;
};

/// Independent chains of fused multiply-adds in registers; a sum of one array into another, larger than the caches that a few cores use; ReadingAlone, which
/// reaches less.
Roofline measure_roofline(Session& session);
/// "peak 233.0 GFLOP/s, memory 56.0 GB/s, reading alone 36.0 GB/s"
std::string to_string(const Roofline& roofline);

}  // namespace gemel::cli
