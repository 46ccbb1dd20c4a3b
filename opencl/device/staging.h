// Private to opencl/: staging memory, by which bytes go to and from a device with memory of its own while it computes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "opencl/device/queues.h"
#include "opencl/handle.h"
#include "opencl/memory/buffer.h"

namespace gemel::opencl {

/// Host memory that the device transfers by itself (a driver copies other memory to such memory first, and may wait meanwhile), and as much memory of the
/// device.
class StagingSlot {
 public:
  /// Enqueues what makes it; it may be used when `is_free`. @throws MemoryError where there is no memory for it
  StagingSlot(Queues& queues, Allocator& memory, std::int64_t bytes);
  /// Waits for enqueued work that uses it.
  ~StagingSlot();
  StagingSlot(const StagingSlot&) = delete;
  StagingSlot& operator=(const StagingSlot&) = delete;

  std::int64_t bytes() const { return device_.bytes(); }
  std::byte* host() const { return host_; }
  cl_mem device() const;
  /// Where the driver is to put the event of work that uses it. @param name  of work whose failure `check` tells; null: others tell of it
  cl_event* in_use_by(const char* name);
  /// The event of the work that was enqueued last.
  const EventHandle& last_use() const { return uses_.back().event; }
  /// Whether all enqueued work that uses it is done. Does not wait.
  bool is_free() const;
  /// Whether `check` would throw.
  bool has_failed() const;
  /// @throws DeviceError if work that used it has failed, once
  void check(const LastWork& last);
  /// Waits for enqueued work that uses it.
  void wait() const;
  /// Begins another use of a free one.
  void begin() { uses_.clear(); }

 private:
  struct Use {
    const char* name;
    EventHandle event;
    bool has_failed() const;
  };
  Buffer device_;
  QueueHandle transfer_;
  MemoryHandle pinned_;
  std::byte* host_ = nullptr;
  std::vector<Use> uses_;
};

/// The staging memory of one kind of transfer: as much of it as is in use at a time, up to a few slots. Thread-safe.
class Staging {
 public:
  /// @param queues, memory  must outlive all calls of `take`
  Staging(Queues& queues, Allocator& memory);
  /// Takes a slot for so many bytes. Does not wait: where none is free, it makes one for later calls if there is room for it.
  /// @return null where none is free  @throws DeviceError as `check`
  std::unique_ptr<StagingSlot> take(std::int64_t bytes);
  void give_back(std::unique_ptr<StagingSlot> slot) noexcept;
  /// Lets go of those that are free, for good: memory is short.
  void give_up();
  /// @throws DeviceError if an upload that used one has failed
  void check();

 private:
  bool has_room(std::int64_t bytes) const;
  void make(std::int64_t bytes);
  Queues& queues_;
  Allocator& memory_;
  mutable std::mutex mutex_;  // of what follows
  std::vector<std::unique_ptr<StagingSlot>> idle_;
  int slots_ = 0;
  bool is_refused_ = false;
};

/// Staging memory of a device that has memory of its own; else none.
struct Stagings {
  std::shared_ptr<Staging> uploads, results;
  /// Tells of an upload that failed alone, or failed the work that waits for it. @param code  of a wait for later work  @throws DeviceError
  void check(cl_int code) const {
    if (uploads && (code == CL_SUCCESS || code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)) uploads->check();
  }
};

/// Fewer bytes go faster without staging memory: a driver puts them next to the command.
inline constexpr std::int64_t kLeastUpload = 64 << 10;

/// Enqueues a write on the transfer queue, beside what the compute queue has to do, and behind that the use of the bytes. Copies them before it returns.
/// @return whether it did: not where they are few, or no staging memory is free
bool upload(Queues& queues, Staging& staging, const Region& to, std::span<const std::byte> from);

}  // namespace gemel::opencl
