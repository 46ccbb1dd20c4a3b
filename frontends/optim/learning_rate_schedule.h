// Learning rate schedules as pure functions of progress.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace gemel::optim {

enum class Schedule { constant, step, cosine, linear };
/// Names of the schedules: constant, step, cosine, linear.
std::vector<std::string_view> schedule_names();
/// @throws UsageError for an unknown name
Schedule parse_schedule(std::string_view name);

/// First steps of a run, in which a linear schedule increases the rate: a number, or a share of the run rounded up.
struct Warmup {
  std::int64_t steps = 0;
  double share = 0;  // 0..1
  std::int64_t of(std::int64_t total) const;
};

/// Progress of a run.
struct Progress {
  std::int64_t epoch = 0, epochs = 0;  // completed and total epochs; epochs 0: the run is measured in steps
  std::int64_t step = 0, steps = 1;
};
/// Returns the rate. `step`: divided by 10 after every 30 epochs. `cosine`: to 0 over the run, by epoch, or by step if the run is measured in steps. `linear`:
/// from 0 up over the warm-up, then down to 0 at the end, by step.
/// @throws UsageError for a warm-up longer than the run
double rate_at(Schedule schedule, double rate, const Progress& progress, const Warmup& warmup = {});

}  // namespace gemel::optim
