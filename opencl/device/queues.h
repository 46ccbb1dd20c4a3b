// Private to opencl/: queues of a device, and the events and fences that order them.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>

#include "engine/base/event.h"
#include "opencl/device/device.h"
#include "opencl/device/last_work.h"
#include "opencl/handle.h"
#include "opencl/sub_device.h"

namespace gemel::opencl {

/// The queues of a device. Thread-safe.
class Queues {
 public:
  Queues(std::shared_ptr<const Context> context, cl_device_id device, cl_command_queue compute, std::shared_ptr<LastWork> last);
  cl_context context() const { return shared_->context->handle.get(); }
  LastWork& last_work() const { return *shared_->last; }
  /// Returns a queue; creates the transfer queue on first use.
  cl_command_queue get(Queue queue);
  Event mark(Queue queue);
  void wait_for(Queue queue, const Event& event);
  Fence make_fence();
  /// Wraps an OpenCL event of a queue, and owns it. @param after  what its work waits for besides: where that has failed, its error is told
  Event event_of(Queue queue, EventHandle event, Event after = {}) const;
  /// The OpenCL event behind an event; null for an empty one. @throws UsageError for an event of another device
  cl_event handle_in(const Event& event) const;
  /// Whether a fence is open: what is enqueued behind it waits for the host.
  bool wait_for_host() const { return shared_->open_fences > 0; }
  /// @throws DeviceError if a fence was broken
  void check_fences() const;

 private:
  /// State that events share, because they may outlive their device.
  struct Shared {
    std::shared_ptr<const Context> context;
    std::shared_ptr<LastWork> last;
    std::atomic<bool> broken = false;
    std::atomic<int> open_fences = 0;
    void check() const;
  };
  class State;
  std::shared_ptr<Shared> shared_;
  cl_device_id device_;
  cl_command_queue compute_;
  std::once_flag transfer_is_made_;
  QueueHandle transfer_;
};

}  // namespace gemel::opencl
