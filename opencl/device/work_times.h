// Private to opencl/: the times of what a device's queue did, under the names and with the costs that it is charged with.
#pragma once
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "opencl/device/device.h"
#include "opencl/handle.h"

namespace gemel::opencl {

/// One piece of work on the queue.
struct Timed {
  TimedWork work;
  EventHandle before{};  // ends where the work may begin, if it is more than one kernel
  EventHandle event{};   // the work's own; empty where enqueueing failed
};

/// Several threads may charge and take work at once: what a thread enqueues within its call of `charge` bears that call's name and costs.
class WorkTimes {
 public:
  /// @param mutex  the queue's; it is held from a call of `next` until the work is enqueued
  explicit WorkTimes(std::mutex& mutex) : mutex_(mutex) {}
  /// An entry for what this thread enqueues next. It stays where it is until it is taken.
  Timed& next(const std::string& name);
  /// Device::charge. @throws InternalError within another charge of the same thread
  void charge(std::string_view name, std::int64_t flops, std::int64_t bytes, const std::function<void()>& enqueue);
  /// Waits for all that is to be taken.
  void wait();
  /// All work before the first that is not finished, or whose charge is not over.
  std::vector<TimedWork> take_finished();

 private:
  struct Charge {
    std::string name;
    const Timed* first = nullptr;  // of the entries under it
    Timed* last = nullptr;
  };

  std::mutex& mutex_;  // of all that follows
  std::deque<Timed> timed_;
  std::unordered_map<std::thread::id, Charge> charges_;  // those that are not over
};

}  // namespace gemel::opencl
