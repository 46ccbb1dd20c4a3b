// BatchParts: access to the other parts of a batch that ranks or devices compute in parts, for normalisation over the full batch.
#pragma once
#include <cstdint>

#include "engine/ops/ops.h"

namespace gemel::nn {

class BatchParts {
 public:
  virtual ~BatchParts() = default;
  /// Gathers the moments of all parts, in operators, with gradients for each part.
  /// @param rows  number of rows that `mine` is of
  /// @return moments of all parts, in the same order on each
  virtual PartMoments gather(const Moments& mine, std::int64_t rows) = 0;
};

}  // namespace gemel::nn
