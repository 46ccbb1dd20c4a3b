// Objects of the stub driver: an OpenCL platform whose commands are finished when they are enqueued, whose kernels compute nothing, and whose calls
// fail on command. Tests find by it what the host takes for a step, and what Gemel makes of each failure, without a GPU.
#pragma once
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl_icd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace stub {

extern cl_icd_dispatch table;

/// What each object begins with: the loader finds the driver's functions by it.
struct Object {
  cl_icd_dispatch* dispatch = &table;
  std::atomic<int> references{1};
};

template <class T>
cl_int retain(T* object) {
  ++object->references;
  return CL_SUCCESS;
}
template <class T>
cl_int release(T* object) {
  if (--object->references == 0) delete object;
  return CL_SUCCESS;
}

/// Answers a query as clGet...Info does.
inline cl_int give_bytes(const void* from, std::size_t bytes, std::size_t room, void* to, std::size_t* needed) {
  if (needed) *needed = bytes;
  if (!to) return CL_SUCCESS;
  if (room < bytes) return CL_INVALID_VALUE;
  std::memcpy(to, from, bytes);
  return CL_SUCCESS;
}
template <class T>
cl_int give(const T& value, std::size_t room, void* to, std::size_t* needed) {
  return give_bytes(&value, sizeof value, room, to, needed);
}
inline cl_int give(const std::string& text, std::size_t room, void* to, std::size_t* needed) {
  return give_bytes(text.c_str(), text.size() + 1, room, to, needed);
}

/// Facts of the device: those of a large GPU with memory of its own, where GEMEL_STUB_DEVICE ("units=24,shared=1") says nothing else.
struct Facts {
  std::int64_t units = 132, group = 1024, width = 32, local = 48 << 10, memory = std::int64_t{80} << 30, allocation = std::int64_t{20} << 30, shared = 0;
  std::int64_t build_ms = 0;  // that building a program takes
};
const Facts& facts();

enum class Fails { call, command };
/// The code with which a call of this function fails now; CL_SUCCESS: it does not. GEMEL_STUB_FAIL ("clFinish:3:-5:1") names a function, its
/// first call that fails, how, and how many of them (without a number: all later ones too). The function "command" is what runs behind the calls: its
/// event ends with the code; "command of clEnqueueWriteBuffer" is what runs behind those of that function.
cl_int failure(const char* function, Fails what = Fails::call);

std::int64_t nanoseconds();

}  // namespace stub

struct _cl_platform_id : stub::Object {};
struct _cl_device_id : stub::Object {};
struct _cl_context : stub::Object {};
struct _cl_command_queue : stub::Object {
  cl_context context = nullptr;
  cl_command_queue_properties properties = 0;
};
/// Memory takes no pages before it is touched.
struct _cl_mem : stub::Object {
  char* data = nullptr;
  std::size_t bytes = 0;
  bool is_own = false;      // mapped here, and to be given back
  cl_mem parent = nullptr;  // of a part
  std::vector<std::function<void(cl_mem)>> at_end;
  ~_cl_mem();
};
struct _cl_program : stub::Object {
  std::string source;
  bool is_binary = false;
};
struct _cl_kernel : stub::Object {
  std::string name;
};
struct _cl_event : stub::Object {
  std::mutex mutex;  // of what follows
  cl_int status = CL_COMPLETE;
  std::int64_t at_ns = stub::nanoseconds();
  std::vector<std::function<void(cl_event, cl_int)>> callbacks;
};

namespace stub {

extern _cl_platform_id platform;
extern _cl_device_id device;

void add_memory(cl_icd_dispatch&);
void add_programs(cl_icd_dispatch&);
void add_commands(cl_icd_dispatch&);

}  // namespace stub
