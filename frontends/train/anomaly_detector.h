// AnomalyDetector (--detect-anomaly): checks every result and remembers the first operator that made a NaN from inputs without NaN.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "engine/core/session.h"

namespace gemel::train {

class AnomalyDetector {
 public:
  /// Watches a session from now on. It waits for every result, so runs are slow.
  explicit AnomalyDetector(Session& session);
  AnomalyDetector(const AnomalyDetector&) = delete;
  AnomalyDetector& operator=(const AnomalyDetector&) = delete;
  /// The first such operator: "layer1.0.conv1: conv2d float32 [64, 8, 8, 64]"; none if a weight or an input already had a NaN.
  const std::optional<std::string>& first() const { return first_; }

 private:
  Session& session_;
  std::optional<std::string> first_;
  std::shared_ptr<void> observation_;
};

}  // namespace gemel::train
