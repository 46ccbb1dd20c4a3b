// Memory on a device: an owned buffer, or a range of a longer-lived one.
#pragma once
#include <cstdint>

#include "engine/value.h"
#include "opencl/buffer.h"

namespace gemel {

class DeviceMemory : public Memory {
 public:
  explicit DeviceMemory(opencl::Buffer buffer) : buffer_(std::move(buffer)), region_(opencl::whole(buffer_)) {}
  /// A range whose buffer outlives this memory (a plan's arena).
  explicit DeviceMemory(const opencl::Region& region) : region_(region) {}
  const opencl::Region& region() const { return region_; }

 private:
  opencl::Buffer buffer_;
  opencl::Region region_;
};

/// The bytes of a value on its device.
opencl::Region region_of(const Value& value);

}  // namespace gemel
