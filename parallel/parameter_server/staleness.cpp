#include "parallel/parameter_server/staleness.h"

#include <algorithm>
#include <ranges>

#include "engine/base/error.h"

namespace gemel::parallel {

double rate_factor(const UpdateRule& rule, const GradientAge& age) {
  return rule.divides_rate && !rule.synchronous() ? 1.0 / static_cast<double>(age.updates + 1) : 1.0;
}

void Staleness::begin_epoch() {
  for (auto& [rank, worker] : workers_) {
    if (worker.read) throw InternalError("staleness: an epoch begins while a gradient is under way");
    worker.steps = 0;
  }
}

std::int64_t Staleness::slowest() const {
  return std::ranges::min(workers_ | std::views::values | std::views::transform([](const Worker& w) { return w.steps; }));
}

std::int64_t Staleness::under_way() const {
  return std::ranges::count_if(workers_, [](const auto& one) { return one.second.read.has_value(); });
}

bool Staleness::may_read(int worker) const { return !bound_ || (workers_.at(worker).steps - slowest() <= *bound_ && under_way() <= *bound_); }

void Staleness::read(int worker) {
  Worker& w = workers_.at(worker);
  w.read = version_;
  w.behind = w.steps - slowest();
}

/// Those that were read before are applied one behind the other, the first at the latest when it is S updates old. There must still be time for each.
bool Staleness::may_apply(int worker) const {
  if (!bound_) return true;
  const std::int64_t own = *workers_.at(worker).read;
  std::vector<std::int64_t> before;
  for (const auto& [rank, w] : workers_)
    if (w.read && *w.read < own) before.push_back(*w.read);
  std::ranges::sort(before);
  for (std::int64_t turn = version_ + 1; const std::int64_t read : before)
    if (turn++ - read > *bound_) return false;
  return true;
}

GradientAge Staleness::finish(Worker& w, std::int64_t version) {
  const GradientAge age{version - *w.read, w.behind};
  w.read.reset();
  ++w.steps;
  return age;
}

GradientAge Staleness::apply(int worker) { return finish(workers_.at(worker), version_++); }

GradientAge Staleness::apply_together(const std::vector<int>& workers) {
  GradientAge oldest;
  for (const int worker : workers) {
    const auto found = workers_.find(worker);
    if (found == workers_.end() || !found->second.read) continue;  // several of one worker, or of one that is lost since
    const GradientAge age = finish(found->second, version_);
    oldest = {std::max(oldest.updates, age.updates), std::max(oldest.steps_behind, age.steps_behind)};
  }
  ++version_;
  return oldest;
}

void Staleness::drop(int worker) { finish(workers_.at(worker), version_); }

}  // namespace gemel::parallel
