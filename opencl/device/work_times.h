// Private to opencl/: times of commands on a device's queue, with names and costs.
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
#include "opencl/device/last_work.h"
#include "opencl/handle.h"

namespace gemel::opencl {

/// One command on the queue, or a group of commands.
struct Timed {
  TimedWork work;
  EventHandle before{};  // ends when the work may begin, if it is more than one kernel
  EventHandle event{};   // event of the work; empty if enqueueing failed
};

/// Collects times. Thread-safe: work that a thread enqueues during its call of `charge` gets the name and costs of that call.
class WorkTimes {
 public:
  /// @param mutex  mutex of the queue; held from a call of `next` until the work is enqueued
  /// @param last   tells of work that failed
  WorkTimes(std::mutex& mutex, const LastWork& last) : last_(last), mutex_(mutex) {}
  /// Adds an entry for the next command of this thread. The reference is valid until the entry is taken.
  Timed& next(const std::string& name);
  /// See Device::charge. @throws InternalError for nested calls in one thread
  void charge(std::string_view name, std::int64_t flops, std::int64_t bytes, const std::function<void()>& enqueue);
  /// Waits for all work that is not taken yet. @throws DeviceError where some failed, with its name
  void wait();
  /// Takes all work before the first entry that is unfinished, or whose call of `charge` has not returned. @throws DeviceError as `wait`
  std::vector<TimedWork> take_finished();

 private:
  struct Charge {
    std::string name;
    const Timed* first = nullptr;  // first entry of the call
    Timed* last = nullptr;
  };

  bool is_finished(const Timed& timed) const;
  const LastWork& last_;
  std::mutex& mutex_;  // protects the members below
  std::deque<Timed> timed_;
  std::unordered_map<std::thread::id, Charge> charges_;  // calls that have not returned
};

}  // namespace gemel::opencl
