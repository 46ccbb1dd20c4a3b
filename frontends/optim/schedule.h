// Learning rates as pure functions of progress.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

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

}  // namespace gemel::optim
