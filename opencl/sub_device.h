// Private to opencl/: DevicePart, one of the equal parts of a CPU device.
#pragma once
#include <tuple>

#include "opencl/handle.h"

namespace gemel::opencl {

/// Number of equal parts of `threads` compute units that a device can be divided into.
int count_parts(cl_device_id device, int threads);

/// Owns one of the equal parts of a device. Parts are reused, never released: a worker of PoCL releases the event of a command a moment after the host
/// sees the command complete, and accesses the part then.
class DevicePart {
 public:
  DevicePart() = default;
  /// @param index  from 0, less than count_parts
  DevicePart(cl_device_id device, int threads, int index);
  DevicePart(DevicePart&& other) noexcept;
  DevicePart& operator=(DevicePart&& other) noexcept;
  ~DevicePart();
  /// The part; null for a whole device.
  cl_device_id get() const { return part_; }

 private:
  std::tuple<cl_device_id, int, int> which_;  // device, threads, index
  cl_device_id part_ = nullptr;
};

/// A context and the device part that it was created for, if any.
struct Context {
  DevicePart part;
  ContextHandle handle;
};

}  // namespace gemel::opencl
