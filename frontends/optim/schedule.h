// Learning rates as pure functions of progress, and clipping of gradients.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/ops/ops.h"
#include "engine/value.h"

namespace gemel::optim {

enum class Schedule { constant, step, cosine };
/// constant, step, cosine
std::vector<std::string_view> schedule_names();
/// @throws UsageError for an unknown name
Schedule parse_schedule(std::string_view name);

/// Where a run stands.
struct Progress {
  std::int64_t epoch = 0;             // complete ones
  std::int64_t done = 0, total = 1;   // for cosine: epochs, or steps where the run is measured in steps
};
/// `step`: a tenth after every 30 epochs. `cosine`: rate (1 + cos(pi done / total)) / 2, to 0 over the run.
double rate_at(Schedule schedule, double rate, const Progress& progress);

struct Clipped {
  Values gradients;
  Value norm;  // float32 [], before clipping; empty where there is no gradient
};
/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), norm = sqrt of the sum of all their squares. In operators, so that
/// it is captured with the step. Empty gradients stay empty.
/// @throws UsageError for a largest norm that is not above 0
Clipped clip_grad_norm(Values gradients, double max_norm);
/// Limits every element to [-limit, limit]. @throws UsageError for a limit that is not above 0
Values clip_grad_value(Values gradients, double limit);

}  // namespace gemel::optim
