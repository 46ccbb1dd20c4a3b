// Private to opencl/: Block, the memory behind a Buffer.
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

/// An OpenCL buffer with its sub-buffers.
struct Block {
  MemoryHandle memory;
  std::int64_t size = 0;
  std::int64_t asked = 0;                                                                   // bytes that its current owner requested
  std::string what;                                                                         // name of the tensor that owns it now
  std::size_t place = 0;                                                                    // among those that the allocator has handed out
  std::byte* host = nullptr;                                                                // its address in host memory; null: allocated by the driver
  bool is_the_callers = false;                                                              // given by the caller; never reused
  std::unordered_map<std::pair<std::int64_t, std::int64_t>, MemoryHandle, PartHash> parts;  // sub-buffers by (offset, bytes)
};

/// OpenCL memory object of a region: that of the block for all requested bytes or an empty region, else a sub-buffer, which is cached in the block.
cl_mem memory_of(const Region& region);

/// Bytes that an allocator may hold.
struct MemoryLimit {
  std::int64_t bytes = 0;
  bool is_asked_for = false;  // else it follows from the device and the machine
};

/// Makes an allocator. It keeps context and queue alive, so that buffers may outlive their device.
std::shared_ptr<Allocator> make_allocator(std::shared_ptr<Context> context, cl_command_queue queue, const DeviceProfile& profile, MemoryLimit limit);

}  // namespace gemel::opencl
