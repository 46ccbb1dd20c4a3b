// Private to opencl/: sessions and processes that share a driver's cache of compiled kernels take turns, so that each kernel is compiled once.
#pragma once
#include <filesystem>
#include <mutex>
#include <utility>

#include "opencl/event_wait.h"
#include "opencl/program/kernel.h"

namespace gemel::opencl {

class BuildTurns {
 public:
  /// One at a time, as long as it lives.
  class Turn {
   public:
    Turn() = default;
    Turn(std::unique_lock<std::mutex> thread, int file);
    Turn(Turn&& other) noexcept;
    Turn& operator=(Turn&&) = delete;
    ~Turn();
    explicit operator bool() const { return thread_.owns_lock(); }

   private:
    std::unique_lock<std::mutex> thread_;
    int file_ = -1;
  };

  /// Until what is enqueued meanwhile is done: PoCL compiles a kernel when it first runs in groups of a size.
  class OfQueue {
   public:
    OfQueue() = default;
    OfQueue(Turn turn, cl_command_queue queue) : turn_(std::move(turn)), queue_(queue) {}
    OfQueue(OfQueue&& other) noexcept = default;
    OfQueue& operator=(OfQueue&&) = delete;
    /// What was compiled is noted, so that a kill from then on takes none of it.
    ~OfQueue();

   private:
    Turn turn_;
    cl_command_queue queue_ = nullptr;
  };

  /// @param folder  where processes share a cache; where nothing can be written in it they do not wait for each other
  explicit BuildTurns(const std::filesystem::path& folder);
  ~BuildTurns();
  BuildTurns(const BuildTurns&) = delete;
  BuildTurns& operator=(const BuildTurns&) = delete;
  /// Waits for the others. Whoever has a turn waits for nothing that another one has to do.
  Turn take() { return {std::unique_lock(mutex_), file_}; }
  /// Behind what was enqueued before, which may wait for another process.
  OfQueue take(cl_command_queue queue) {
    finish(queue);
    return {take(), queue};
  }

 private:
  std::mutex mutex_;  // a lock of a file does not tell threads apart that have it open once
  int file_;
};

/// What of a range a driver that compiles a kernel for each size of a group goes by: the local extents, and whether there are more groups than a few.
/// Where it chooses the size itself, all of the range.
Range as_driver_meets(const Range& range);
/// Whether the driver has yet to compile the kernel for such groups; from here on it has.
bool is_new_to_driver(Kernel& kernel, const Range& range);

}  // namespace gemel::opencl
