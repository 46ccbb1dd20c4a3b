// Scheduler: moves an optimizer's learning rate from step to step, as torch.optim.lr_scheduler does.
#pragma once
#include <cstdint>
#include <functional>

#include "frontends/optim/optimizer.h"

namespace gemel::optim {

/// What the first rate is multiplied by after a number of steps, from 0.
using RateFactor = std::function<double(std::int64_t steps)>;

/// gamma^(steps / every), whole divisions. @throws UsageError for `every` below 1
RateFactor step_decay(std::int64_t every, double gamma = 0.1);
/// (1 + cos(pi steps / total)) / 2: from 1 to 0, and 0 from then on. @throws UsageError for `total` below 1
RateFactor cosine_decay(std::int64_t total);
/// Up from 0 by equal parts to 1 after `warmup` steps, then down by equal parts to 0 at `total`; without warm-up only down.
/// @throws UsageError for `total` below 1, or a warm-up below 0 or above it
RateFactor linear_decay(std::int64_t total, std::int64_t warmup = 0);

/// A step is whatever its user counts: updates, or epochs.
class Scheduler {
 public:
  /// The optimizer's rate becomes its present one times factor(0).
  Scheduler(Optimizer& optimizer, RateFactor factor);
  /// Counts one and sets the rate.
  void step() { go_to(steps_ + 1); }
  /// As after so many steps: for a run that goes on.
  void go_to(std::int64_t steps);
  std::int64_t steps() const { return steps_; }

 private:
  Optimizer& optimizer_;
  RateFactor factor_;
  double first_rate_;
  std::int64_t steps_ = 0;
};

}  // namespace gemel::optim
