#include "frontends/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/base/error.h"
#include "frontends/optim/scheduler.h"

namespace gemel::optim {
namespace {

constexpr std::array<std::string_view, 3> kSchedules{"constant", "step", "cosine"};  // as the enumeration
constexpr std::int64_t kStepEpochs = 30;

}  // namespace

std::vector<std::string_view> schedule_names() { return {kSchedules.begin(), kSchedules.end()}; }

Schedule parse_schedule(std::string_view name) {
  const auto it = std::ranges::find(kSchedules, name);
  if (it == kSchedules.end())
    throw UsageError(fmt::format("schedule: {} is unknown; accepted: {}", name, fmt::join(kSchedules, ", ")));
  return static_cast<Schedule>(it - kSchedules.begin());
}

double rate_at(Schedule schedule, double rate, const Progress& progress) {
  if (schedule == Schedule::step) return rate * step_decay(kStepEpochs)(progress.epoch);
  if (schedule == Schedule::cosine) return rate * cosine_decay(progress.total)(progress.done);
  return rate;
}

}  // namespace gemel::optim
