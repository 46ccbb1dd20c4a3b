// Private to opencl/: BuildTurns, a lock for threads and processes that share a driver's kernel cache, so that each kernel is compiled once.
#pragma once
#include <filesystem>
#include <mutex>
#include <utility>

#include "opencl/event_wait.h"
#include "opencl/program/kernel.h"

namespace gemel::opencl {

/// Lets one thread of all processes compile at a time.
class BuildTurns {
 public:
  /// The lock, held while this object lives.
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

  /// The lock, held until the work that was enqueued meanwhile is done: PoCL compiles a kernel when it first runs with a work-group size.
  class OfQueue {
   public:
    OfQueue() = default;
    OfQueue(Turn turn, cl_command_queue queue) : turn_(std::move(turn)), queue_(queue) {}
    OfQueue(OfQueue&& other) noexcept = default;
    OfQueue& operator=(OfQueue&&) = delete;
    /// Waits for the queue and adds new kernels to the manifest, so that a later kill does not lose them.
    ~OfQueue();

   private:
    Turn turn_;
    cl_command_queue queue_ = nullptr;
  };

  /// @param folder  cache that processes share; if it cannot be written, processes do not wait for each other
  explicit BuildTurns(const std::filesystem::path& folder);
  ~BuildTurns();
  BuildTurns(const BuildTurns&) = delete;
  BuildTurns& operator=(const BuildTurns&) = delete;
  /// Waits for the lock. Its holder must not wait for work of another thread or process.
  Turn take() { return {std::unique_lock(mutex_), file_}; }
  /// Waits for all work on the queue, which may depend on another process, then for the lock.
  OfQueue take(cl_command_queue queue) {
    finish(queue);
    return {take(), queue};
  }

 private:
  std::mutex mutex_;  // for threads, which a lock on one open file does not separate
  int file_;
};

/// The part of a range that decides whether a driver compiles a kernel again, if it compiles for each work-group size: the local extents, and whether
/// there are many groups; all of the range if the driver chooses the size.
Range as_driver_meets(const Range& range);
/// True if the driver has to compile the kernel for this range. Remembers the range as compiled.
bool is_new_to_driver(Kernel& kernel, const Range& range);

}  // namespace gemel::opencl
