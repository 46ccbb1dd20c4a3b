#include "frontends/cli/kernel_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/file.h"

namespace gemel::cli {
namespace {

constexpr std::int64_t kStepsASample = 16;  // timing costs some per cent of a step of small kernels
constexpr int kRank = 0, kQueue = 0;         // a trace is of one rank, whose compute queue is timed

/// Names a track, the queue of a rank, for programs that show traces.
std::string track_names(int rank, int queue, const char* queue_name) {
  const nlohmann::ordered_json process{{"name", "process_name"}, {"ph", "M"}, {"pid", rank}, {"args", {{"name", fmt::format("rank {}", rank)}}}};
  const nlohmann::ordered_json thread{{"name", "thread_name"}, {"ph", "M"}, {"pid", rank}, {"tid", queue}, {"args", {{"name", queue_name}}}};
  return "\n" + process.dump() + ",\n" + thread.dump();
}

}  // namespace

void KernelTimes::add(std::vector<opencl::TimedWork> works) {
  for (opencl::TimedWork& w : works) {
    busy_ns_ += std::max<std::int64_t>(0, w.end_ns - std::max(w.begin_ns, busy_until_ns_));  // never twice
    busy_until_ns_ = std::max(busy_until_ns_, w.end_ns);
    if (!trace_.empty()) kept_.push_back(std::move(w));
  }
}

void KernelTimes::collect() { add(device_.take_finished_work()); }

bool KernelTimes::begin_step() {
  collect();
  const bool timed = !trace_.empty() || steps_ % kStepsASample == 0;
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

void KernelTimes::write_trace() {
  if (trace_.empty()) return;
  add(device_.take_work());
  write_file_atomically(trace_, [&](FileWriter& out) {
    const std::int64_t zero = kept_.empty() ? 0 : kept_.front().begin_ns;
    std::string text = "{\"traceEvents\":[" + track_names(kRank, kQueue, "compute queue");
    for (const opencl::TimedWork& w : kept_) {
      const nlohmann::ordered_json event{{"name", w.name}, {"cat", "kernel"}, {"ph", "X"},
                                         {"ts", 1e-3 * static_cast<double>(w.begin_ns - zero)},
                                         {"dur", 1e-3 * static_cast<double>(w.end_ns - w.begin_ns)}, {"pid", kRank}, {"tid", kQueue},
                                         {"args", {{"flops", w.flops}, {"bytes", w.bytes}}}};
      text += ",\n" + event.dump();
      if (text.size() > (1u << 20)) {
        out.write(text);
        text.clear();
      }
    }
    out.write(text + "\n]}\n");
  });
}

}  // namespace gemel::cli
