// Learning rates as pure functions of progress.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace gemel::optim {

enum class Schedule { constant, step, cosine, linear };
/// constant, step, cosine, linear
std::vector<std::string_view> schedule_names();
/// @throws UsageError for an unknown name
Schedule parse_schedule(std::string_view name);

/// The first steps of a run, in which a linear schedule climbs to its rate: so many, or a share of the run rounded up.
struct Warmup {
  std::int64_t steps = 0;
  double share = 0;  // 0..1
  std::int64_t of(std::int64_t total) const;
};

/// Where a run stands.
struct Progress {
  std::int64_t epoch = 0, epochs = 0;  // complete ones, and all of them; 0: the run is measured in steps
  std::int64_t step = 0, steps = 1;
};
/// `step`: a tenth after every 30 epochs. `cosine`: to 0 over the run, by epoch, or by step where the run is measured in steps. `linear`: up from 0
/// over the warm-up, then down to 0 at the end, by step.
/// @throws UsageError for a warm-up longer than the run
double rate_at(Schedule schedule, double rate, const Progress& progress, const Warmup& warmup = {});

}  // namespace gemel::optim
