// Device memory: Allocator; Buffer, which owns a block of it; Region, a range of a block.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/host_view.h"

namespace gemel::opencl {

class Allocator;
struct Block;  // one OpenCL buffer, its size, its sub-buffers

/// Owns a block of device memory and returns it to the allocator. Work that is already enqueued may still use the block: its next owner enqueues
/// later on the same in-order queue.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<Allocator> allocator, Block* block, std::int64_t bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();
  explicit operator bool() const { return block_ != nullptr; }
  /// Requested size; the block may be larger.
  std::int64_t bytes() const { return bytes_; }
  Block* block() const { return block_; }

 private:
  std::shared_ptr<Allocator> allocator_;
  Block* block_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// A range of a block, in bytes. Does not own it. `offset` must be a multiple of the device's base alignment.
struct Region {
  Block* block = nullptr;
  std::int64_t offset = 0, bytes = 0;
};

inline Region whole(const Buffer& buffer) { return {buffer.block(), 0, buffer.bytes()}; }

/// Scratch memory that is leased from the allocator.
struct Scratch {
  Region region;
  Buffer own;                  // in exact mode: a buffer of exactly the requested size
  std::shared_ptr<void> hold;  // release it when all kernels are enqueued; others wait for that
};

struct MemoryStatistics {
  std::int64_t of_device = 0;  // bytes that the device has, as its driver states
  std::int64_t limit = 0;      // limit on bytes held
  std::int64_t in_use = 0;     // bytes in live buffers
  std::int64_t cached = 0;     // bytes cached for later requests
  std::int64_t peak_in_use = 0;
  std::int64_t requests = 0, hits = 0;
};
/// "12 held, 56 on the device, limit 34": in bytes
std::string text_of(const MemoryStatistics& statistics);

/// Caching allocator of OpenCL buffers. Caches freed blocks by size; empties the cache at the limit, or when the device refuses, before it fails.
/// Exact mode (GEMEL_ALLOCATOR=exact): each request gets a new buffer of exactly its size, so that memory checkers see every overrun.
class Allocator : public std::enable_shared_from_this<Allocator> {
 public:
  virtual ~Allocator() = default;
  /// Allocates a buffer.
  /// @param what  names the tensor in out-of-memory errors, e.g. "conv2d float32 [64, 56, 56, 64]"
  /// @throws MemoryError with the request, the memory held, and the largest buffers by name
  virtual Buffer allocate(std::int64_t bytes, std::string_view what) = 0;
  /// Makes a buffer over host memory that the caller gives. It counts as in use, and is not cached: it is released when the buffer is destroyed and all
  /// work enqueued with it is done.
  /// @throws UsageError if the host memory is not aligned to a page or is too small
  /// @throws MemoryError as allocate
  virtual Buffer adopt(const HostBytes& memory, std::int64_t bytes, std::string_view what) = 0;
  /// Leases scratch memory for the kernels of one operator. All operators share one buffer, since the queue runs them in order; while a lease is held,
  /// no other thread gets one. @throws MemoryError as allocate
  virtual Scratch scratch(std::int64_t bytes, std::string_view what) = 0;
  virtual MemoryStatistics statistics() const = 0;
  /// True in exact mode.
  virtual bool exact() const = 0;
  virtual void reset_peak() = 0;
  /// Releases cached blocks.
  virtual void trim() = 0;
  /// @param give_up  is called, without a lock, before a request is refused: whoever holds memory that it can do without lets go of it
  virtual void before_refusing(std::function<void()> give_up) = 0;

 private:
  friend class Buffer;
  virtual void release(Block* block) noexcept = 0;
};

}  // namespace gemel::opencl
