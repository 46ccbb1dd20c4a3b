// Times of the kernels of a run: how busy the device was, from every 16th step, and with --profile from all.
#pragma once
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "frontends/cli/run/chrome_trace.h"
#include "opencl/device/device.h"

namespace gemel::cli {

class KernelTimes {
 public:
  /// @param keeps_all  for a trace
  KernelTimes(opencl::Device& device, bool keeps_all) : device_(device), keeps_all_(keeps_all) {}
  /// Takes the times of what is finished, without waiting.
  void collect();
  /// Before a step is enqueued. @return whether it is timed
  bool begin_step();
  /// Device time of the steps since the last call, in seconds, as those that were timed have it. The next step is timed.
  double take_busy_seconds();
  /// Share of the time, 0 to 1, in which the device computed in the steps that began since the last call, as those that were timed have it; before a step has
  /// been timed nothing, and where no step began the last value. From any thread, but from one alone.
  std::optional<double> take_busy_share();
  /// Waits for all work and gives what was kept since the last call, on the host's steady clock.
  std::vector<TraceEvent> take_trace();

 private:
  void add(std::vector<opencl::TimedWork> works);
  opencl::Device& device_;
  bool keeps_all_;
  std::int64_t busy_ns_ = 0, busy_until_ns_ = 0;
  std::int64_t steps_ = 0, timed_ = 0;  // since the busy time was taken
  std::vector<opencl::TimedWork> kept_;

  /// Of the steps that have ended, for `take_busy_share`.
  struct Ended {
    std::int64_t since_ns = 0, until_ns = 0;  // begin of the first and of the step after the last
    double busy_ns = 0;
  };
  std::mutex mutex_;  // protects the two below
  Ended ended_;
  std::optional<double> busy_share_;
  double busy_ns_of_step_ = 0;  // of the timed ones; 0: none has been
};

}  // namespace gemel::cli
