#include "opencl/handle.h"

#include <array>
#include <utility>

#include "engine/base/error.h"

namespace gemel::opencl {

std::string code_name(cl_int code) {
#define GEMEL_CODE(name) \
  { name, #name }
  static constexpr std::pair<cl_int, const char*> names[] = {GEMEL_CODE(CL_DEVICE_NOT_FOUND),
                                                             GEMEL_CODE(CL_DEVICE_NOT_AVAILABLE),
                                                             GEMEL_CODE(CL_COMPILER_NOT_AVAILABLE),
                                                             GEMEL_CODE(CL_MEM_OBJECT_ALLOCATION_FAILURE),
                                                             GEMEL_CODE(CL_OUT_OF_RESOURCES),
                                                             GEMEL_CODE(CL_OUT_OF_HOST_MEMORY),
                                                             GEMEL_CODE(CL_PROFILING_INFO_NOT_AVAILABLE),
                                                             GEMEL_CODE(CL_MEM_COPY_OVERLAP),
                                                             GEMEL_CODE(CL_BUILD_PROGRAM_FAILURE),
                                                             GEMEL_CODE(CL_MAP_FAILURE),
                                                             GEMEL_CODE(CL_MISALIGNED_SUB_BUFFER_OFFSET),
                                                             GEMEL_CODE(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
                                                             GEMEL_CODE(CL_INVALID_VALUE),
                                                             GEMEL_CODE(CL_INVALID_DEVICE_TYPE),
                                                             GEMEL_CODE(CL_INVALID_PLATFORM),
                                                             GEMEL_CODE(CL_INVALID_DEVICE),
                                                             GEMEL_CODE(CL_INVALID_CONTEXT),
                                                             GEMEL_CODE(CL_INVALID_QUEUE_PROPERTIES),
                                                             GEMEL_CODE(CL_INVALID_COMMAND_QUEUE),
                                                             GEMEL_CODE(CL_INVALID_MEM_OBJECT),
                                                             GEMEL_CODE(CL_INVALID_BINARY),
                                                             GEMEL_CODE(CL_INVALID_BUILD_OPTIONS),
                                                             GEMEL_CODE(CL_INVALID_PROGRAM),
                                                             GEMEL_CODE(CL_INVALID_PROGRAM_EXECUTABLE),
                                                             GEMEL_CODE(CL_INVALID_KERNEL_NAME),
                                                             GEMEL_CODE(CL_INVALID_KERNEL),
                                                             GEMEL_CODE(CL_INVALID_ARG_INDEX),
                                                             GEMEL_CODE(CL_INVALID_ARG_VALUE),
                                                             GEMEL_CODE(CL_INVALID_ARG_SIZE),
                                                             GEMEL_CODE(CL_INVALID_KERNEL_ARGS),
                                                             GEMEL_CODE(CL_INVALID_WORK_DIMENSION),
                                                             GEMEL_CODE(CL_INVALID_WORK_GROUP_SIZE),
                                                             GEMEL_CODE(CL_INVALID_WORK_ITEM_SIZE),
                                                             GEMEL_CODE(CL_INVALID_GLOBAL_OFFSET),
                                                             GEMEL_CODE(CL_INVALID_EVENT_WAIT_LIST),
                                                             GEMEL_CODE(CL_INVALID_EVENT),
                                                             GEMEL_CODE(CL_INVALID_OPERATION),
                                                             GEMEL_CODE(CL_INVALID_BUFFER_SIZE),
                                                             GEMEL_CODE(CL_INVALID_GLOBAL_WORK_SIZE),
                                                             GEMEL_CODE(CL_INVALID_DEVICE_PARTITION_COUNT),
                                                             {-777, "a hang, as Intel's driver calls it"},
                                                             {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
                                                             {-9999, "an error in a kernel, as NVIDIA's driver calls it"}};
#undef GEMEL_CODE
  for (const auto& [value, name] : names)
    if (value == code) return std::string(name) + " (" + std::to_string(code) + ")";
  return "code " + std::to_string(code);
}

void check(cl_int code, const char* call, const std::string& context) {
  if (code == CL_SUCCESS) return;
  const std::string text = std::string(call) + ": " + code_name(code) + (context.empty() ? "" : "; " + context);
  if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY) throw MemoryError(text);
  throw DeviceError(text);
}

namespace {
template <class Get>
std::string text(Get get) {
  std::size_t bytes = 0;
  if (get(0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return "";
  std::string value(bytes, '\0');
  if (get(bytes, value.data(), nullptr) != CL_SUCCESS) return "";
  value.resize(value.find('\0') == std::string::npos ? value.size() : value.find('\0'));
  return value;
}
}  // namespace

std::string device_text(cl_device_id device, cl_device_info what) {
  return text([&](std::size_t n, char* to, std::size_t* size) { return clGetDeviceInfo(device, what, n, to, size); });
}
std::string platform_text(cl_platform_id platform, cl_platform_info what) {
  return text([&](std::size_t n, char* to, std::size_t* size) { return clGetPlatformInfo(platform, what, n, to, size); });
}

}  // namespace gemel::opencl
