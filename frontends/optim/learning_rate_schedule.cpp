#include "frontends/optim/learning_rate_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/base/error.h"
#include "frontends/optim/scheduler.h"

namespace gemel::optim {
namespace {

constexpr std::array<std::string_view, 4> kSchedules{"constant", "step", "cosine", "linear"};  // as the enumeration
constexpr std::int64_t kStepEpochs = 30;

}  // namespace

std::vector<std::string_view> schedule_names() { return {kSchedules.begin(), kSchedules.end()}; }

Schedule parse_schedule(std::string_view name) {
  const auto it = std::ranges::find(kSchedules, name);
  if (it == kSchedules.end()) throw UsageError(fmt::format("schedule: {} is unknown; accepted: {}", name, fmt::join(kSchedules, ", ")));
  return static_cast<Schedule>(it - kSchedules.begin());
}

std::int64_t Warmup::of(std::int64_t total) const { return share > 0 ? static_cast<std::int64_t>(std::ceil(share * static_cast<double>(total))) : steps; }

double rate_at(Schedule schedule, double rate, const Progress& p, const Warmup& warmup) {
  switch (schedule) {
    case Schedule::constant:
      return rate;
    case Schedule::step:
      return rate * step_decay(kStepEpochs)(p.epoch);
    case Schedule::cosine:
      return rate * (p.epochs ? cosine_decay(p.epochs)(p.epoch) : cosine_decay(p.steps)(p.step));
    case Schedule::linear:
      return rate * linear_decay(p.steps, warmup.of(p.steps))(p.step);
  }
  throw InternalError("schedule: no such kind");
}

}  // namespace gemel::optim
