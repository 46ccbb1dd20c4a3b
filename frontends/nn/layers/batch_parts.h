// A batch that is computed in parts, by ranks or devices: normalisation that sees all of it asks here for the others' parts.
#pragma once
#include <cstdint>

#include "engine/ops/ops.h"

namespace gemel::nn {

class BatchParts {
 public:
  virtual ~BatchParts() = default;
  /// In operators, with gradients for each part. @param rows  whose moments these are
  /// @return those of all parts, in the same order on each
  virtual PartMoments gather(const Moments& mine, std::int64_t rows) = 0;
};

}  // namespace gemel::nn
