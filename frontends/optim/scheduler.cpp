#include "frontends/optim/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "engine/base/error.h"

namespace gemel::optim {
namespace {

void check_least(const char* what, std::int64_t value, std::int64_t least) {
  if (value < least) throw UsageError(fmt::format("scheduler: {} is {}; accepted: {} or more", what, value, least));
}

}  // namespace

RateFactor step_decay(std::int64_t every, double gamma) {
  check_least("every", every, 1);
  return [=](std::int64_t steps) { return std::pow(gamma, static_cast<double>(steps / every)); };
}

RateFactor cosine_decay(std::int64_t total) {
  check_least("total", total, 1);
  return [=](std::int64_t steps) { return (1 + std::cos(std::numbers::pi * std::min(1.0, static_cast<double>(steps) / static_cast<double>(total)))) / 2; };
}

RateFactor linear_decay(std::int64_t total, std::int64_t warmup) {
  check_least("total", total, 1);
  if (warmup < 0 || warmup > total) throw UsageError(fmt::format("scheduler: a warm-up of {} of {} steps; accepted: 0..{}", warmup, total, total));
  return [=](std::int64_t steps) {
    if (steps < warmup) return static_cast<double>(steps) / static_cast<double>(warmup);
    return static_cast<double>(std::max<std::int64_t>(0, total - steps)) / static_cast<double>(std::max<std::int64_t>(1, total - warmup));
  };
}

Scheduler::Scheduler(Optimizer& optimizer, RateFactor factor) : optimizer_(optimizer), factor_(std::move(factor)), first_rate_(optimizer.rate()) { go_to(0); }

void Scheduler::go_to(std::int64_t steps) {
  steps_ = steps;
  optimizer_.set_rate(first_rate_ * factor_(steps));
}

}  // namespace gemel::optim
