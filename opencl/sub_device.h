// Private to opencl/: parts of a CPU device.
#pragma once
#include <tuple>

#include "opencl/handle.h"

namespace gemel::opencl {

/// How many equal parts of so many threads a device has.
int count_parts(cl_device_id device, int threads);

/// One of the equal parts of a device, to itself as long as this lives. It is not released but lent again: a worker of PoCL lets go of a command's
/// event a moment after the host has seen the command complete, and looks at the part for that.
class DevicePart {
 public:
  DevicePart() = default;
  /// @param index  from 0, less than count_parts
  DevicePart(cl_device_id device, int threads, int index);
  DevicePart(DevicePart&& other) noexcept;
  DevicePart& operator=(DevicePart&& other) noexcept;
  ~DevicePart();
  /// Null: a whole device.
  cl_device_id get() const { return part_; }

 private:
  std::tuple<cl_device_id, int, int> which_;  // device, threads, index
  cl_device_id part_ = nullptr;
};

/// A context, and the part of a device that it was made for.
struct Context {
  DevicePart part;
  ContextHandle handle;
};

}  // namespace gemel::opencl
