#include "frontends/cli/run/usage_record.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/usage/process_state.h"
#include "frontends/cli/strategies/strategy.h"

namespace gemel::cli {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::chrono::seconds kPeriod{1};

}  // namespace

UsageRecord::UsageRecord(RunScope& scope, Job& job, int cores) : scope_(scope), job_(job), cores_(cores) {
  if (job_.is_first_of_host()) power_.emplace();
  last_ns_ = steady_ns();
  processor_seconds_ = usage_of(::getpid()).processor_seconds;
  if (job_.rank() == 0) job_.notes().take();  // of a record before
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "gemel usage");
    run();
  });
}

UsageRecord::~UsageRecord() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  stopped_.notify_all();
  thread_.join();
  write_notes();
}

void UsageRecord::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kPeriod, [this] { return stops_; })) {  // not by fixed moments: after a halt all that were missed would come at once
    job_.note(line().dump());
    write_notes();
  }
}

/// In this thread, not in that of the failure detector, whose beats would wait for a folder that does not answer.
void UsageRecord::write_notes() {
  if (job_.rank() != 0) return;
  for (const NoteBoard::Note& note : job_.notes().take()) {
    Json line = Json::parse(note.line, nullptr, false);
    if (!line.is_object()) continue;
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - note.time;
    line["seconds"] = std::max(0.0, scope_.log().seconds() - since.count());  // by one clock for all ranks
    scope_.log().event(line);
  }
}

bool UsageRecord::has_process() const { return job_.rank() == 0 || job_.strategy().ranks_are() != RanksAre::threads; }

Json UsageRecord::line() {
  const std::int64_t now_ns = steady_ns();
  const double elapsed = 1e-9 * static_cast<double>(now_ns - std::exchange(last_ns_, now_ns));
  Json out{{"event", "usage"}, {"rank", job_.rank()}, {"seconds", 0}};  // as rank 0 counts them
  if (has_process()) {
    const ProcessUsage now = usage_of(::getpid());
    const double used = now.processor_seconds - std::exchange(processor_seconds_, now.processor_seconds);
    out["cpu"] = std::min(1.0, used / (elapsed * cores_));  // times have steps of 10 ms
    out["resident_bytes"] = now.resident_bytes;
  }
  if (const auto busy = scope_.times().take_busy_share()) out["device_busy"] = *busy;
  out["device_bytes"] = scope_.device().memory().statistics().in_use;
  if (!power_) return out;
  if (const auto joules = power_->joules()) out["watts"] = (*joules - std::exchange(joules_, *joules)) / elapsed;
  return out;
}

}  // namespace gemel::cli
