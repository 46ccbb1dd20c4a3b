// Times of the kernels of a run: how busy the device was, from every 16th step, and with --profile from all, with a Chrome trace.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "opencl/device.h"

namespace gemel::cli {

class KernelTimes {
 public:
  /// @param trace  file of the trace, written when `write_trace` is called; empty: none
  KernelTimes(opencl::Device& device, std::string trace) : device_(device), trace_(std::move(trace)) {}
  /// Takes the times of what is finished, without waiting.
  void collect();
  /// Before a step is enqueued. @return whether it is timed
  bool begin_step();
  /// Device time of the steps since the last call, in seconds, as those that were timed have it. The next step is timed.
  double take_busy_seconds();
  /// Waits for all work and writes the trace. @throws DataError where it cannot be written
  void write_trace();

 private:
  void add(std::vector<opencl::TimedWork> works);
  opencl::Device& device_;
  std::string trace_;
  std::int64_t busy_ns_ = 0, busy_until_ns_ = 0;
  std::int64_t steps_ = 0, timed_ = 0;  // since the busy time was taken
  std::vector<opencl::TimedWork> kept_;
};

}  // namespace gemel::cli
