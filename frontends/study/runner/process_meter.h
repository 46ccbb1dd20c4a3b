// ProcessMeter: what a process and its descendants use, measured from outside and so in one way for every program.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/base/usage/power_meter.h"

namespace gemel::study {

/// A part of a process's life, in Unix seconds.
struct Span {
  double from = 0, to = 0;
};

class ProcessMeter {
 public:
  using Json = nlohmann::ordered_json;
  /// @param cores  that the process may use
  explicit ProcessMeter(int cores) : cores_(cores) {}

  /// Measures where a tenth of a second has passed since the last measurement. To be called some times a second.
  void tick(pid_t process);
  /// Means over a span: `utilisation` (processor time over wall time and cores, 0 to 1), `watts` of the machine, `card_utilisation` of the busiest NVIDIA card;
  /// `other_cores` that were busy with other programs, or taken by a hypervisor; and `peak_resident_bytes`, the largest sum over the processes. Without what
  /// cannot be measured.
  Json means(const Span& span) const;
  const PowerMeter& power() const { return power_; }
  /// A line for each second: `seconds` since the first measurement, `cpu` as `utilisation`, `resident_bytes`, `watts`.
  std::vector<Json> lines() const;

 private:
  struct Sample {
    double at = 0;                          // Unix seconds
    double processor_seconds = 0;           // since the process began
    std::optional<double> machine_seconds;  // of all programs
    std::int64_t resident_bytes = 0;
    std::optional<double> joules, card_utilisation;
  };
  double utilisation(const Sample& from, const Sample& to) const;
  int cores_;
  PowerMeter power_;
  std::vector<Sample> samples_;
};

}  // namespace gemel::study
