// Times of the kernels of a run: how busy the device was, from every 16th step, and with --profile from all.
#pragma once
#include <cstdint>
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
  /// Waits for all work and gives what was kept since the last call, on the host's steady clock.
  std::vector<TraceEvent> take_trace();

 private:
  void add(std::vector<opencl::TimedWork> works);
  opencl::Device& device_;
  bool keeps_all_;
  std::int64_t busy_ns_ = 0, busy_until_ns_ = 0;
  std::int64_t steps_ = 0, timed_ = 0;  // since the busy time was taken
  std::vector<opencl::TimedWork> kept_;
};

}  // namespace gemel::cli
