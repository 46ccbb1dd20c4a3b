// Private to opencl/: LastWork, what each queue of a device was given last, and the errors of its queues, which tell of it.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "opencl/device/device.h"
#include "opencl/device_profile.h"
#include "opencl/handle.h"

namespace gemel::opencl {

/// A driver tells of work that failed at a later call, and not which work it was: the last that the queue was given before narrows it down. Thread-safe.
class LastWork {
 public:
  /// To be called once. @param memory  whose figures errors of missing memory show
  void begin(const DeviceProfile& device, const std::shared_ptr<const Allocator>& memory);
  /// Notes what is enqueued. @param name  must live until `end`
  void note(const char* name, Queue queue = Queue::compute) { names_[index(queue)].store(name, std::memory_order_relaxed); }
  /// Null where nothing was enqueued yet.
  const char* name(Queue queue = Queue::compute) const { return names_[index(queue)].load(std::memory_order_relaxed); }
  /// The device ends, and the names with it; its events may outlive it.
  void end() { has_ended_ = true; }

  /// Checks the code of a call that enqueues work on a queue or waits for all of it.
  /// @throws MemoryError where memory is missing, DeviceError otherwise: with the queue's last work, and with what to do next where it has failed
  void check_on(Queue queue, cl_int code, const char* call, const std::string& context = {}) const {
    if (code != CL_SUCCESS) check_until(name(queue), code, call, context);
  }
  /// The same for the compute queue.
  void check(cl_int code, const char* call, const std::string& context = {}) const { check_on(Queue::compute, code, call, context); }
  /// The same for a wait for what was enqueued up to the work of this name.
  void check_until(const char* last, cl_int code, const char* call, const std::string& context = {}) const;
  /// The same for a wait for this work alone.
  void check_of(const std::string& name, cl_int code, const char* call) const;

 private:
  /// @param work  what failed, for messages
  [[noreturn]] void fail(cl_int code, const char* call, const std::string& context, const std::string& work) const;
  std::string device_;
  bool is_card_ = false;
  std::weak_ptr<const Allocator> memory_;
  static std::size_t index(Queue queue) { return queue == Queue::compute ? 0 : 1; }
  std::array<std::atomic<const char*>, 2> names_{};
  std::atomic<bool> has_ended_ = false;
};

}  // namespace gemel::opencl
