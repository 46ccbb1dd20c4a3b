// Private to opencl/: maps device memory to the host.
#pragma once
#include <mutex>

#include "engine/base/host_view.h"
#include "opencl/device/device.h"
#include "opencl/device/queues.h"
#include "opencl/program/build_lock.h"

namespace gemel::opencl {

class HostViews {
 public:
  /// @param device  owner of the queues
  /// @param turns   null if no other process builds the same kernels
  HostViews(Device& device, Queues& queues, BuildTurns* turns) : device_(device), queues_(queues), turns_(turns) {}
  /// Device::map: gives the memory itself if kernels compute in host memory, else maps it on the transfer queue.
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
