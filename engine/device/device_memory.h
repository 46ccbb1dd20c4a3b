// DeviceMemory: a buffer on a device, or a range of other memory.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/core/value.h"
#include "opencl/memory/buffer.h"

namespace gemel {

class DeviceMemory : public Memory {
 public:
  explicit DeviceMemory(opencl::Buffer buffer) : buffer_(std::move(buffer)), region_(opencl::whole(buffer_)) {}
  /// Makes a range of `whole`, which it keeps alive.
  DeviceMemory(std::shared_ptr<const Memory> whole, const opencl::Region& region) : whole_(std::move(whole)), region_(region) {}
  const opencl::Region& region() const { return region_; }

 private:
  opencl::Buffer buffer_;
  std::shared_ptr<const Memory> whole_;
  opencl::Region region_;
};

/// Region of a value in the memory of its device.
opencl::Region region_of(const Value& value);

}  // namespace gemel
