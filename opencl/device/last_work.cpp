#include "opencl/device/last_work.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "engine/base/error.h"
#include "opencl/memory/buffer.h"

namespace gemel::opencl {
namespace {

constexpr cl_int kLastOfOpenCl = -72;  // what lies beyond are makers' own codes

/// The device has given up work, or there is no telling.
bool is_of_work(cl_int code) {
  return code == CL_DEVICE_NOT_AVAILABLE || code == CL_OUT_OF_RESOURCES || code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST ||
         code == CL_INVALID_COMMAND_QUEUE || code < kLastOfOpenCl;
}

bool is_of_memory(cl_int code) { return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY; }

}  // namespace

void LastWork::begin(const DeviceProfile& device, const std::shared_ptr<const Allocator>& memory) {
  device_ = device.name;
  is_card_ = !device.is_cpu();
  memory_ = memory;
}

void LastWork::check_until(const char* last, cl_int code, const char* call, const std::string& context) const {
  if (code == CL_SUCCESS) return;
  fail(code, call, context, last && !has_ended_ ? fmt::format("work on {}, the last of it {},", device_, last) : "work on " + device_);
}

void LastWork::check_of(const std::string& name, cl_int code, const char* call) const {
  if (code != CL_SUCCESS) fail(code, call, {}, fmt::format("{} on {}", name, device_));
}

void LastWork::fail(cl_int code, const char* call, const std::string& context, const std::string& work) const {
  if (!is_of_work(code) && !is_of_memory(code)) opencl::check(code, call, context);
  std::string text = fmt::format("{}: {}{}{}; ", call, code_name(code), context.empty() ? "" : "; ", context);
  if (is_of_memory(code)) {
    text += work + " finds no memory";
    if (const auto memory = memory_.lock()) text += fmt::format("; {} bytes, so others may hold the rest", text_of(memory->statistics()));
    throw MemoryError(text + "; accepted: a smaller batch, input or model, another device, or a limit (--memory-limit) below what is free");
  }
  // Of a launch this code may mean the kernel itself.
  if (code == CL_OUT_OF_RESOURCES && std::string_view(call) == "clEnqueueNDRangeKernel")
    text += fmt::format("{} has too few registers or too little local memory for it, or ", device_);
  text += work + " has failed";
  if (is_card_) text += "; `dmesg` tells why: a watchdog that ends long kernels (accepted: a smaller batch), a reset, or a fault of driver or card";
  throw DeviceError(text);
}

}  // namespace gemel::opencl
