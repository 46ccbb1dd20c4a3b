// Private to opencl/: a device's queues, and the events and fences that order them.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>

#include "engine/base/event.h"
#include "opencl/device/device.h"
#include "opencl/handle.h"
#include "opencl/sub_device.h"

namespace gemel::opencl {

/// Threads may use it at once.
class Queues {
 public:
  Queues(std::shared_ptr<const Context> context, cl_device_id device, cl_command_queue compute);
  cl_context context() const { return shared_->context->handle.get(); }
  /// The queue for transfers is made when it is first asked for.
  cl_command_queue get(Queue queue);
  Event mark(Queue queue);
  void wait_for(Queue queue, const Event& event);
  Fence make_fence();
  /// An event of work on this device, which it owns from here on.
  Event event_of(EventHandle event) const;
  /// What the driver waits for; null for an event that has happened by itself. @throws UsageError for another device's
  cl_event handle_in(const Event& event) const;
  /// @throws DeviceError where a fence was broken
  void check_fences() const;

 private:
  /// What events share; they may outlive their device.
  struct Shared {
    std::shared_ptr<const Context> context;
    std::atomic<bool> broken = false;
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
