// What the machine can do at most, measured on the spot.
#pragma once
#include <string>

#include "engine/op.h"
#include "engine/session.h"

namespace gemel {

struct Roofline {
  double flops, bytes, reads;  // a second; bytes that are read and written, and that are only read

  /// The least time that a problem can take whose operands lie in memory: by its FLOPs, by all its bytes, by those that it reads.
  /// One whose operands a cache still holds may take less.
  double seconds(const Problem& problem) const;
};

/// Independent chains of fused multiply-adds in registers; a sum of one array into another, and the sum of an array, all larger
/// than the caches that a few cores use. A core that only reads waits for its few outstanding lines, and reaches less than one that also writes.
Roofline measure_roofline(Session& session);
/// "peak 233.0 GFLOP/s, memory 56.0 GB/s, reading alone 36.0 GB/s"
std::string to_string(const Roofline& roofline);

}  // namespace gemel
