#include "frontends/cli/run/kernel_times.h"

#include <algorithm>
#include <utility>

#include "engine/base/clock.h"

namespace gemel::cli {
namespace {

constexpr std::int64_t kStepsASample = 16;  // timing costs some per cent of a step of small kernels

}  // namespace

void KernelTimes::add(std::vector<opencl::TimedWork> works) {
  for (opencl::TimedWork& w : works) {
    busy_ns_ += std::max<std::int64_t>(0, w.end_ns - std::max(w.begin_ns, busy_until_ns_));  // never twice
    busy_until_ns_ = std::max(busy_until_ns_, w.end_ns);
    if (keeps_all_) kept_.push_back(std::move(w));
  }
}

void KernelTimes::collect() { add(device_.take_finished_work()); }

bool KernelTimes::begin_step() {
  collect();
  if (timed_ > 0) busy_ns_of_step_ = static_cast<double>(busy_ns_) / static_cast<double>(timed_);
  {
    const std::lock_guard lock(mutex_);
    ended_.until_ns = steady_ns();
    if (ended_.since_ns == 0)
      ended_.since_ns = ended_.until_ns;
    else
      ended_.busy_ns += busy_ns_of_step_;
  }
  const bool timed = keeps_all_ || steps_ % kStepsASample == 0;
  ++steps_;
  timed_ += timed;
  device_.time_work(timed ? opencl::Device::Timing::on : opencl::Device::Timing::off);
  return timed;
}

double KernelTimes::take_busy_seconds() {
  collect();
  device_.time_work(opencl::Device::Timing::off);
  const auto steps = static_cast<double>(std::exchange(steps_, 0)), timed = static_cast<double>(std::exchange(timed_, 0));
  return 1e-9 * static_cast<double>(std::exchange(busy_ns_, 0)) * (timed > 0 ? steps / timed : 1);
}

std::optional<double> KernelTimes::take_busy_share() {
  const std::lock_guard lock(mutex_);
  if (ended_.busy_ns > 0) busy_share_ = std::min(1.0, ended_.busy_ns / static_cast<double>(std::max<std::int64_t>(1, ended_.until_ns - ended_.since_ns)));
  ended_ = {ended_.until_ns, ended_.until_ns, 0};
  return busy_share_;
}

std::vector<TraceEvent> KernelTimes::take_trace() {
  if (!keeps_all_) return {};
  add(device_.take_work());
  const std::int64_t lead = device_.clock_lead_ns();
  std::vector<TraceEvent> out;
  for (opencl::TimedWork& w : std::exchange(kept_, {}))
    out.push_back({std::move(w.name), Track::compute_queue, 0, w.begin_ns + lead, w.end_ns + lead, w.flops, w.bytes});
  return out;
}

}  // namespace gemel::cli
