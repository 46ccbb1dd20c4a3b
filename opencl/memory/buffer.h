// Device memory: Buffer owns a block of the allocator, Region is a range of one.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/host_view.h"

namespace gemel::opencl {

class Allocator;
struct Block;  // one OpenCL buffer, its size, its sub-buffers

/// Owns a block of device memory; gives it back to the allocator when destroyed. Work that is already enqueued on the
/// device's in-order queue may still use it: whoever gets the block next is enqueued later.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<Allocator> allocator, Block* block, std::int64_t bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();
  explicit operator bool() const { return block_ != nullptr; }
  /// Bytes asked for; the block behind it may be larger.
  std::int64_t bytes() const { return bytes_; }
  Block* block() const { return block_; }

 private:
  std::shared_ptr<Allocator> allocator_;
  Block* block_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// A range of a buffer, as kernels see it. Does not own. `offset` must be a multiple of the device's base alignment.
struct Region {
  Block* block = nullptr;
  std::int64_t offset = 0, bytes = 0;
};

inline Region whole(const Buffer& buffer) { return {buffer.block(), 0, buffer.bytes()}; }

/// A lease of the allocator's scratch memory.
struct Scratch {
  Region region;
  Buffer own;                  // in exact mode: a buffer of just the size
  std::shared_ptr<void> hold;  // others wait until it is let go, when all kernels are enqueued
};

struct MemoryStatistics {
  std::int64_t limit = 0;   // bytes that may be held
  std::int64_t in_use = 0;  // bytes in live buffers
  std::int64_t cached = 0;  // bytes kept for the next request
  std::int64_t peak_in_use = 0;
  std::int64_t requests = 0, hits = 0;
};

/// A caching allocator over OpenCL buffers. Freed blocks are kept by size and handed out again; at the limit, or when
/// the device refuses, the cache is emptied first.
/// Exact mode (GEMEL_ALLOCATOR=exact): one buffer of just the size asked for each request, never handed out again, so
/// that a memory checker sees every overrun.
class Allocator : public std::enable_shared_from_this<Allocator> {
 public:
  virtual ~Allocator() = default;
  /// @param what  names the tensor in an out-of-memory report, e.g. "conv2d float32 [64, 56, 56, 64]"
  /// @throws MemoryError with what was asked, what is held, and the largest buffers by name
  virtual Buffer allocate(std::int64_t bytes, std::string_view what) = 0;
  /// A block in memory that the caller gives: counted as in use, let go of instead of kept when the buffer is destroyed and all that is
  /// enqueued with it is done. @throws UsageError where it does not begin a page or is too small  @throws MemoryError like allocate
  virtual Buffer adopt(const HostBytes& memory, std::int64_t bytes, std::string_view what) = 0;
  /// Memory for one operator's kernels between its first and its last, of which nothing is kept: all share one buffer, the
  /// largest asked for, since the queue runs them in order. Who has a lease enqueues alone. @throws MemoryError like allocate
  virtual Scratch scratch(std::int64_t bytes, std::string_view what) = 0;
  virtual MemoryStatistics statistics() const = 0;
  /// Whether this is exact mode.
  virtual bool exact() const = 0;
  virtual void reset_peak() = 0;
  /// Gives cached blocks back to the device.
  virtual void trim() = 0;

 private:
  friend class Buffer;
  virtual void release(Block* block) noexcept = 0;
};

}  // namespace gemel::opencl
