// Private to opencl/: RAII owners of OpenCL objects, and conversion of error codes to exceptions.
#pragma once
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include <string>
#include <utility>
#include <vector>

namespace gemel::opencl {

/// Name and number of a code: "CL_OUT_OF_RESOURCES (-5)".
std::string code_name(cl_int code);
/// Checks the code of an OpenCL call.
/// @throws MemoryError for a code that reports missing memory; some drivers notice it only on first use
/// @throws DeviceError `clCall: CODE` with the context, for any other code but CL_SUCCESS
void check(cl_int code, const char* call, const std::string& context = {});

/// Owns an OpenCL object.
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
  /// Address at which an OpenCL call stores a new object, which the handle then owns. The handle must be empty.
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

/// Properties of a device or platform; zero or empty if the driver does not know them.
template <class T>
T device_info(cl_device_id device, cl_device_info what) {
  T value{};
  clGetDeviceInfo(device, what, sizeof value, &value, nullptr);
  return value;
}
std::string device_text(cl_device_id device, cl_device_info what);
std::string platform_text(cl_platform_id platform, cl_platform_info what);

}  // namespace gemel::opencl
