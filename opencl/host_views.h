// Private to opencl/: a device's memory as the host sees it.
#pragma once
#include <mutex>

#include "engine/base/host_view.h"
#include "opencl/device.h"
#include "opencl/queues.h"

namespace gemel::opencl {

class HostViews {
 public:
  /// @param device  whose queues these are
  HostViews(Device& device, Queues& queues) : device_(device), queues_(queues) {}
  /// The memory itself where kernels compute in the host's own; else a map on the queue for transfers.
  HostView map(const Region& region, Access access, const Event& after);

 private:
  bool computes_in_host_memory();
  HostView mapped(const Region& region, Access access, const Event& after);
  Device& device_;
  Queues& queues_;
  std::once_flag probed_;
  bool computes_in_host_memory_ = false;
};

}  // namespace gemel::opencl
