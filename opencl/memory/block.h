// Private to opencl/: the block behind a Buffer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include "opencl/device_profile.h"
#include "opencl/handle.h"
#include "opencl/memory/buffer.h"
#include "opencl/sub_device.h"

namespace gemel::opencl {

struct PartHash {
  std::size_t operator()(const std::pair<std::int64_t, std::int64_t>& part) const {
    return (static_cast<std::size_t>(part.first) * 0x9E3779B97F4A7C15u) ^ static_cast<std::size_t>(part.second);
  }
};

struct Block {
  MemoryHandle memory;
  std::int64_t size = 0;
  std::int64_t asked = 0;       // bytes of `size` that its holder asked for
  std::string what;             // names the tensor that holds it now
  std::byte* host = nullptr;    // where it begins in the host's memory; null: the driver allocated it
  bool is_the_callers = false;  // memory that the caller gave: never handed out again
  std::unordered_map<std::pair<std::int64_t, std::int64_t>, MemoryHandle, PartHash> parts;  // sub-buffers by (offset, bytes)
};

/// The memory object of a region: the block's own for all that its holder asked for (or nothing of it), else a sub-buffer, made once
/// and kept with its block.
cl_mem memory_of(const Region& region);

/// Keeps context and queue alive, so that buffers may outlive their device.
/// @param limit  bytes the allocator may hold
std::shared_ptr<Allocator> make_allocator(std::shared_ptr<Context> context, cl_command_queue queue, const DeviceProfile& profile, std::int64_t limit);

}  // namespace gemel::opencl
