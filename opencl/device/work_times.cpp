#include "opencl/device/work_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "engine/base/error.h"
#include "opencl/event_wait.h"

namespace gemel::opencl {
namespace {

std::int64_t profiled(const EventHandle& event, cl_profiling_info what) {
  cl_ulong value = 0;
  check(clGetEventProfilingInfo(event.get(), what, sizeof value, &value, nullptr), "clGetEventProfilingInfo");
  return static_cast<std::int64_t>(value);
}

}  // namespace

bool WorkTimes::is_finished(const Timed& timed) const {
  if (!timed.event) return true;
  cl_int status = CL_COMPLETE;
  check(clGetEventInfo(timed.event.get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr), "clGetEventInfo");
  if (status < 0) last_.check_of(timed.work.name, status, "clGetEventInfo");
  return status == CL_COMPLETE;
}

Timed& WorkTimes::next(const std::string& name) {
  const auto found = charges_.find(std::this_thread::get_id());
  if (found == charges_.end()) return timed_.emplace_back(Timed{{name}});
  Charge& charge = found->second;
  Timed& timed = timed_.emplace_back(Timed{{charge.name == name ? name : charge.name + "/" + name}});
  if (!charge.first) charge.first = &timed;
  charge.last = &timed;
  return timed;
}

void WorkTimes::charge(std::string_view name, std::int64_t flops, std::int64_t bytes, const std::function<void()>& enqueue) {
  const auto self = std::this_thread::get_id();
  {
    const std::lock_guard lock(mutex_);
    const auto [other, is_only] = charges_.try_emplace(self, Charge{std::string(name)});
    if (!is_only) throw InternalError(fmt::format("charge: {} begins within {}; accepted: one at a time in a thread", name, other->second.name));
  }
  const std::shared_ptr<void> end(nullptr, [&](void*) {  // where it throws too
    const std::lock_guard lock(mutex_);
    charges_.erase(self);
  });
  enqueue();
  const std::lock_guard lock(mutex_);
  if (Timed* last = charges_.at(self).last) last->work.flops = flops, last->work.bytes = bytes;
}

void WorkTimes::wait() {
  const std::lock_guard lock(mutex_);
  for (const Timed& t : timed_) last_.check_of(t.work.name, opencl::wait(t.event), "clWaitForEvents");
}

std::vector<TimedWork> WorkTimes::take_finished() {
  const std::lock_guard lock(mutex_);
  const auto begins_open_charge = [this](const Timed& t) { return std::ranges::any_of(charges_, [&](const auto& entry) { return entry.second.first == &t; }); };
  std::vector<TimedWork> out;
  while (!timed_.empty() && !begins_open_charge(timed_.front()) && is_finished(timed_.front())) {
    Timed t = std::move(timed_.front());
    timed_.pop_front();
    if (!t.event) continue;
    t.work.begin_ns = t.before ? profiled(t.before, CL_PROFILING_COMMAND_END) : profiled(t.event, CL_PROFILING_COMMAND_START);
    t.work.end_ns = profiled(t.event, CL_PROFILING_COMMAND_END);
    out.push_back(std::move(t.work));
  }
  return out;
}

}  // namespace gemel::opencl
