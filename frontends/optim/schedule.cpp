#include "frontends/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/base/error.h"
#include "frontends/optim/norm.h"
#include "frontends/optim/scheduler.h"

namespace gemel::optim {
namespace {

constexpr std::array<std::string_view, 3> kSchedules{"constant", "step", "cosine"};  // as the enumeration
constexpr std::int64_t kStepEpochs = 30;

void check_limit(const char* op, double limit) {
  if (!(limit > 0)) throw UsageError(fmt::format("{}: limit {} given; accepted: above 0", op, limit));
}

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

Clipped clip_grad_norm(Values gradients, double max_norm) {
  check_limit("clip_grad_norm", max_norm);
  Value squares;
  for (const Value& g : gradients) {
    if (!g) continue;
    Value one = squared_norm(g);
    squares = squares ? add(std::move(squares), std::move(one)) : std::move(one);
  }
  if (!squares) return {std::move(gradients), {}};
  const Value norm = sqrt(std::move(squares));
  const Value factor = clip_factor(norm, max_norm);
  for (Value& g : gradients)
    if (g) g = scaled(std::move(g), factor);
  return {std::move(gradients), norm};
}

Values clip_grad_value(Values gradients, double limit) {
  check_limit("clip_grad_value", limit);
  for (Value& g : gradients)
    if (g) g = clamp(std::move(g), -limit, limit);
  return gradients;
}

}  // namespace gemel::optim
