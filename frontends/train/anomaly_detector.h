// --detect-anomaly: looks at every result and remembers the first operator that made a NaN and was given none.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "engine/core/session.h"

namespace gemel::train {

class AnomalyDetector {
 public:
  /// Watches a session from now on; it waits for every result, so runs are slow.
  explicit AnomalyDetector(Session& session);
  AnomalyDetector(const AnomalyDetector&) = delete;
  AnomalyDetector& operator=(const AnomalyDetector&) = delete;
  /// "layer1.0.conv1: conv2d float32 [64, 8, 8, 64]"; none where a NaN was there from the beginning, in a weight or a picture
  const std::optional<std::string>& first() const { return first_; }

 private:
  Session& session_;
  std::optional<std::string> first_;
  std::shared_ptr<void> observation_;
};

}  // namespace gemel::train
