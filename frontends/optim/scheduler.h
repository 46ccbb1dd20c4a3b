// Scheduler: changes an optimizer's learning rate from step to step, as torch.optim.lr_scheduler.
#pragma once
#include <cstdint>
#include <functional>

#include "frontends/optim/optimizer.h"

namespace gemel::optim {

/// Factor of the initial rate after a number of steps, from 0.
using RateFactor = std::function<double(std::int64_t steps)>;

/// gamma^(steps / every), with integer division.
/// @throws UsageError for `every` below 1
RateFactor step_decay(std::int64_t every, double gamma = 0.1);
/// (1 + cos(pi steps / total)) / 2: from 1 to 0, then 0.
/// @throws UsageError for `total` below 1
RateFactor cosine_decay(std::int64_t total);
/// Linear from 0 to 1 over `warmup` steps, then linear to 0 at `total`.
/// @throws UsageError for `total` below 1, or a warm-up below 0 or above it
RateFactor linear_decay(std::int64_t total, std::int64_t warmup = 0);

/// A scheduler, whose steps are what the user counts: updates, or epochs.
class Scheduler {
 public:
  /// Sets the optimizer's rate to its present one times factor(0).
  Scheduler(Optimizer& optimizer, RateFactor factor);
  /// Counts a step and sets the rate.
  void step() { go_to(steps_ + 1); }
  /// Sets the rate as after `steps` steps, for a resumed run.
  void go_to(std::int64_t steps);
  std::int64_t steps() const { return steps_; }

 private:
  Optimizer& optimizer_;
  RateFactor factor_;
  double first_rate_;
  std::int64_t steps_ = 0;
};

}  // namespace gemel::optim
