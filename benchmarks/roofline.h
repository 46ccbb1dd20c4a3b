// What the machine can do at most, measured on the spot.
#pragma once
#include "engine/op.h"
#include "engine/session.h"

namespace gemel {

struct Roofline {
  double flops, bytes;  // a second

  /// The least time that a cost can take.
  double seconds(const Cost& c) const;
};

/// Independent chains of fused multiply-adds in registers; and a sum of one array into another, both larger than any cache.
Roofline measure_roofline(Session& session);

}  // namespace gemel
