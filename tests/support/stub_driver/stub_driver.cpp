// Platform, device, context and queues of the stub driver, and by what the loader finds it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <string_view>

#include "tests/support/stub_driver/stub_objects.h"

namespace stub {
namespace {

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

[[noreturn]] void refuse(const char* name, const std::string& value) {
  std::fprintf(stderr, "stub driver: %s is '%s'\n", name, value.c_str());
  std::abort();
}

Facts read_facts() {
  Facts out;
  const std::map<std::string, std::int64_t*> by_name{{"units", &out.units},   {"group", &out.group},      {"width", &out.width},
                                                     {"local", &out.local},   {"memory", &out.memory},    {"allocation", &out.allocation},
                                                     {"shared", &out.shared}, {"build_ms", &out.build_ms}};
  const std::string given = from_environment("GEMEL_STUB_DEVICE");
  for (std::size_t begin = 0; begin < given.size();) {
    const std::size_t end = std::min(given.find(',', begin), given.size()), equals = given.find('=', begin);
    const auto fact = equals < end ? by_name.find(given.substr(begin, equals - begin)) : by_name.end();
    if (fact == by_name.end()) refuse("GEMEL_STUB_DEVICE", given);
    *fact->second = std::atoll(given.c_str() + equals + 1);
    begin = end + 1;
  }
  return out;
}

/// What GEMEL_STUB_FAIL asks for.
struct Failure {
  std::string function;
  Fails what = Fails::call;
  int call = 0;
  cl_int code = CL_SUCCESS;
  int count = std::numeric_limits<int>::max();
};
Failure read_failure() {
  const std::string given = from_environment("GEMEL_STUB_FAIL");
  const std::size_t first = given.find(':'), second = given.find(':', first + 1);
  if (given.empty()) return {};
  if (second == std::string::npos) refuse("GEMEL_STUB_FAIL", given);
  constexpr std::string_view kCommandOf = "command of ";
  const bool of_command = given.starts_with(kCommandOf);
  const std::size_t begin = of_command ? kCommandOf.size() : 0;
  Failure out{given.substr(begin, first - begin), of_command ? Fails::command : Fails::call, std::atoi(given.c_str() + first + 1),
              std::atoi(given.c_str() + second + 1)};
  if (const std::size_t third = given.find(':', second + 1); third != std::string::npos) out.count = std::atoi(given.c_str() + third + 1);
  return out;
}

cl_int get_platforms(cl_uint room, cl_platform_id* out, cl_uint* count) {
  if (count) *count = 1;
  if (out && room > 0) *out = &platform;
  return CL_SUCCESS;
}

cl_int platform_info(cl_platform_id, cl_platform_info what, std::size_t room, void* to, std::size_t* needed) {
  switch (what) {
    case CL_PLATFORM_PROFILE:
      return give(std::string("FULL_PROFILE"), room, to, needed);
    case CL_PLATFORM_VERSION:
      return give(std::string("OpenCL 1.2 stub"), room, to, needed);
    case CL_PLATFORM_NAME:
      return give(std::string("Stub"), room, to, needed);
    case CL_PLATFORM_VENDOR:
      return give(std::string("Gemel's tests"), room, to, needed);
    case CL_PLATFORM_EXTENSIONS:
      return give(std::string("cl_khr_icd"), room, to, needed);
    case CL_PLATFORM_ICD_SUFFIX_KHR:
      return give(std::string("STUB"), room, to, needed);
    default:
      return CL_INVALID_VALUE;
  }
}

cl_int get_devices(cl_platform_id, cl_device_type type, cl_uint room, cl_device_id* out, cl_uint* count) {
  const bool is_meant = (type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT)) != 0;
  if (count) *count = is_meant ? 1 : 0;
  if (!is_meant) return CL_DEVICE_NOT_FOUND;
  if (out && room > 0) *out = &device;
  return failure("clGetDeviceIDs");
}

cl_int device_info(cl_device_id, cl_device_info what, std::size_t room, void* to, std::size_t* needed) {
  const Facts& f = facts();
  const auto number = [&](auto value) { return give(value, room, to, needed); };
  const auto text = [&](const char* value) { return give(std::string(value), room, to, needed); };
  switch (what) {
    case CL_DEVICE_TYPE:
      return number(cl_device_type{CL_DEVICE_TYPE_GPU});
    case CL_DEVICE_VENDOR_ID:
      return number(cl_uint{0});
    case CL_DEVICE_MAX_COMPUTE_UNITS:
      return number(static_cast<cl_uint>(f.units));
    case CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS:
      return number(cl_uint{3});
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
      return number(static_cast<std::size_t>(f.group));
    case CL_DEVICE_MAX_WORK_ITEM_SIZES: {
      const std::size_t sizes[] = {static_cast<std::size_t>(f.group), static_cast<std::size_t>(f.group), 64};
      return give_bytes(sizes, sizeof sizes, room, to, needed);
    }
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
    case CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT:
      return number(cl_uint{1});
    case CL_DEVICE_MAX_CLOCK_FREQUENCY:
      return number(cl_uint{1500});
    case CL_DEVICE_ADDRESS_BITS:
      return number(cl_uint{64});
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
      return number(cl_uint{4096});
    case CL_DEVICE_SINGLE_FP_CONFIG:
      return number(cl_device_fp_config{CL_FP_DENORM | CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST | CL_FP_FMA});
    case CL_DEVICE_DOUBLE_FP_CONFIG:
      return number(cl_device_fp_config{0});
    case CL_DEVICE_GLOBAL_MEM_CACHE_SIZE:
      return number(cl_ulong{50} << 20);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
      return number(static_cast<cl_ulong>(f.memory));
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
      return number(static_cast<cl_ulong>(f.allocation));
    case CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE:
      return number(cl_ulong{64} << 10);
    case CL_DEVICE_LOCAL_MEM_TYPE:
      return number(cl_device_local_mem_type{CL_LOCAL});
    case CL_DEVICE_LOCAL_MEM_SIZE:
      return number(static_cast<cl_ulong>(f.local));
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
      return number(static_cast<cl_bool>(f.shared != 0));
    case CL_DEVICE_PROFILING_TIMER_RESOLUTION:
      return number(std::size_t{1});
    case CL_DEVICE_ENDIAN_LITTLE:
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_COMPILER_AVAILABLE:
    case CL_DEVICE_LINKER_AVAILABLE:
      return number(cl_bool{CL_TRUE});
    case CL_DEVICE_PARTITION_MAX_SUB_DEVICES:
      return number(cl_uint{1});
    case CL_DEVICE_PLATFORM:
      return number(&platform);
    case CL_DEVICE_NAME:
      return text("Stub GPU");
    case CL_DEVICE_VENDOR:
      return text("Gemel's tests");
    case CL_DRIVER_VERSION:
      return text("1");
    case CL_DEVICE_PROFILE:
      return text("FULL_PROFILE");
    case CL_DEVICE_VERSION:
      return text("OpenCL 1.2 stub");
    case CL_DEVICE_OPENCL_C_VERSION:
      return text("OpenCL C 1.2");
    case CL_DEVICE_EXTENSIONS:
      return text("cl_nv_device_attribute_query");
    case CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV:
      return number(cl_uint{7});  // the last without the matrix units that are tried as a device is opened
    case CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV:
      return number(cl_uint{0});
    case CL_DEVICE_WARP_SIZE_NV:
      return number(static_cast<cl_uint>(f.width));
    default:
      return CL_INVALID_VALUE;
  }
}

cl_context create_context(const cl_context_properties*, cl_uint, const cl_device_id*, void (*)(const char*, const void*, std::size_t, void*), void*,
                          cl_int* code) {
  const cl_int failed = failure("clCreateContext");
  if (code) *code = failed;
  return failed == CL_SUCCESS ? new _cl_context : nullptr;
}

cl_int context_info(cl_context, cl_context_info what, std::size_t room, void* to, std::size_t* needed) {
  switch (what) {
    case CL_CONTEXT_NUM_DEVICES:
      return give(cl_uint{1}, room, to, needed);
    case CL_CONTEXT_DEVICES:
      return give(&device, room, to, needed);
    default:
      return CL_INVALID_VALUE;
  }
}

cl_command_queue create_queue(cl_context context, cl_device_id, cl_command_queue_properties properties, cl_int* code) {
  const cl_int failed = failure("clCreateCommandQueue");
  if (code) *code = failed;
  if (failed != CL_SUCCESS) return nullptr;
  auto* queue = new _cl_command_queue;
  queue->context = context;
  queue->properties = properties;
  return queue;
}

cl_int queue_info(cl_command_queue queue, cl_command_queue_info what, std::size_t room, void* to, std::size_t* needed) {
  switch (what) {
    case CL_QUEUE_CONTEXT:
      return give(queue->context, room, to, needed);
    case CL_QUEUE_DEVICE:
      return give(&device, room, to, needed);
    case CL_QUEUE_PROPERTIES:
      return give(queue->properties, room, to, needed);
    default:
      return CL_INVALID_VALUE;
  }
}

cl_int same_device(cl_device_id) { return CL_SUCCESS; }

cl_icd_dispatch made_table() {
  cl_icd_dispatch out{};  // what Gemel and CLBlast do not call is not there
  out.clGetPlatformIDs = get_platforms;
  out.clGetPlatformInfo = platform_info;
  out.clGetDeviceIDs = get_devices;
  out.clGetDeviceInfo = device_info;
  out.clRetainDevice = same_device;
  out.clReleaseDevice = same_device;
  out.clCreateContext = create_context;
  out.clRetainContext = retain<_cl_context>;
  out.clReleaseContext = release<_cl_context>;
  out.clGetContextInfo = context_info;
  out.clCreateCommandQueue = create_queue;
  out.clRetainCommandQueue = retain<_cl_command_queue>;
  out.clReleaseCommandQueue = release<_cl_command_queue>;
  out.clGetCommandQueueInfo = queue_info;
  add_memory(out);
  add_programs(out);
  add_commands(out);
  return out;
}

}  // namespace

cl_icd_dispatch table = made_table();
_cl_platform_id platform;
_cl_device_id device;

const Facts& facts() {
  static const Facts known = read_facts();
  return known;
}

cl_int failure(const char* function, Fails what) {
  static const Failure wanted = read_failure();
  static std::atomic<int> calls = 0;
  if (wanted.what != what || wanted.function != function) return CL_SUCCESS;
  const int failed = ++calls - wanted.call;
  return failed >= 0 && failed < wanted.count ? wanted.code : CL_SUCCESS;
}

std::int64_t nanoseconds() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace stub

extern "C" {

__attribute__((visibility("default"))) cl_int clIcdGetPlatformIDsKHR(cl_uint room, cl_platform_id* out, cl_uint* count) {
  return stub::table.clGetPlatformIDs(room, out, count);
}

__attribute__((visibility("default"))) cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t room, void* to, size_t* needed) {
  return stub::table.clGetPlatformInfo(platform, what, room, to, needed);
}

__attribute__((visibility("default"))) void* clGetExtensionFunctionAddress(const char* name) {
  if (std::strcmp(name, "clIcdGetPlatformIDsKHR") == 0) return reinterpret_cast<void*>(clIcdGetPlatformIDsKHR);
  return nullptr;
}
}
