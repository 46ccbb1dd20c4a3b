// Private to opencl/: owners of OpenCL objects, and errors with the call and the code's name.
#pragma once
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include <string>
#include <utility>
#include <vector>

namespace gemel::opencl {

/// "CL_OUT_OF_RESOURCES (-5)"
std::string code_name(cl_int code);
/// @throws DeviceError `clCall: CODE` with the context, unless the code is CL_SUCCESS  @throws MemoryError where it says that there is no
/// memory: some drivers only find out when it is used first
void check(cl_int code, const char* call, const std::string& context = {});

/// Owns one OpenCL object and releases it.
template <class T, cl_int (*release)(T)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T object) : object_(object) {}
  Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() {
    if (object_) release(object_);
  }
  T get() const { return object_; }
  /// Where an OpenCL call puts the object that it makes, which this then owns. Only while empty.
  T* place() { return &object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T object_ = nullptr;
};
using ContextHandle = Handle<cl_context, clReleaseContext>;
using QueueHandle = Handle<cl_command_queue, clReleaseCommandQueue>;
using MemoryHandle = Handle<cl_mem, clReleaseMemObject>;
using ProgramHandle = Handle<cl_program, clReleaseProgram>;
using KernelHandle = Handle<cl_kernel, clReleaseKernel>;
using EventHandle = Handle<cl_event, clReleaseEvent>;

/// A device or platform property. Zero or empty where the driver does not know it.
template <class T>
T device_info(cl_device_id device, cl_device_info what) {
  T value{};
  clGetDeviceInfo(device, what, sizeof value, &value, nullptr);
  return value;
}
std::string device_text(cl_device_id device, cl_device_info what);
std::string platform_text(cl_platform_id platform, cl_platform_info what);

}  // namespace gemel::opencl
