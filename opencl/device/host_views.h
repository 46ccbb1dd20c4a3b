// Private to opencl/: a device's memory as the host sees it.
#pragma once
#include <mutex>

#include "engine/base/host_view.h"
#include "opencl/device/device.h"
#include "opencl/device/queues.h"
#include "opencl/program/build_lock.h"

namespace gemel::opencl {

class HostViews {
 public:
  /// @param device  whose queues these are  @param turns  null where nobody else builds the same kernels
  HostViews(Device& device, Queues& queues, BuildTurns* turns) : device_(device), queues_(queues), turns_(turns) {}
  /// The memory itself where kernels compute in the host's own; else a map on the queue for transfers.
  HostView map(const Region& region, Access access, const Event& after);

 private:
  bool computes_in_host_memory();
  HostView mapped(const Region& region, Access access, const Event& after);
  Device& device_;
  Queues& queues_;
  BuildTurns* turns_;
  std::once_flag probed_;
  bool computes_in_host_memory_ = false;
};

}  // namespace gemel::opencl
