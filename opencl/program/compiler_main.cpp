// gemel-compile PLATFORM DEVICE: compiles the requests that arrive on its standard input, a socket (opencl/program/out_of_process_compilation.h). A
// compiler that crashes ends this process and not the run.
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <list>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "opencl/handle.h"
#include "opencl/program/compile_request.h"
#include "opencl/program/program_cache.h"

namespace gemel::opencl {
namespace {

constexpr int kSocket = STDIN_FILENO;
// What a signal handler and the driver's threads reach.
std::atomic<bool> answered = false;
std::atomic<cl_event> enqueued = nullptr;

/// Once for each request: by a thread of the driver's when the kernel begins to run, or by this one where it does not come to that.
void answer() {
  if (!answered.exchange(true)) send_message(kSocket, kCompiled);
}

/// A kernel may crash among zeros; it has been compiled then, and the driver's thread that is to say so may come later.
void crash(int signal) {
  cl_int status = CL_QUEUED;
  if (const cl_event event = enqueued;
      event && clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr) == CL_SUCCESS && status <= CL_RUNNING)
    answer();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

std::vector<cl_platform_id> platforms() {
  cl_uint count = 0;
  check(clGetPlatformIDs(0, nullptr, &count), "clGetPlatformIDs");
  std::vector<cl_platform_id> out(count);
  check(clGetPlatformIDs(count, out.data(), nullptr), "clGetPlatformIDs");
  return out;
}

cl_device_id device_called(const std::string& platform, const std::string& name) {
  for (cl_platform_id p : platforms()) {
    cl_uint count = 0;
    if (platform_text(p, CL_PLATFORM_NAME) != platform || clGetDeviceIDs(p, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
    std::vector<cl_device_id> devices(count);
    check(clGetDeviceIDs(p, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr), "clGetDeviceIDs");
    for (cl_device_id d : devices)
      if (device_text(d, CL_DEVICE_NAME) == name) return d;
  }
  throw DeviceError(fmt::format("platform '{}' has no device '{}'", platform, name));
}

/// A buffer of zeros, whose pages come into being as they are used.
class Zeros {
 public:
  Zeros(cl_context context, std::int64_t bytes)
      : bytes_(at(bytes)), data_(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (data_ == MAP_FAILED) throw MemoryError(fmt::format("{} bytes: there is no room", bytes));
    cl_int code = CL_SUCCESS;
    buffer_ = MemoryHandle(clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes_, data_, &code));
    check(code, "clCreateBuffer");
  }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  ~Zeros() {
    buffer_ = {};
    if (data_ != MAP_FAILED) ::munmap(data_, bytes_);
  }
  cl_mem get() const { return buffer_.get(); }

 private:
  std::size_t bytes_;
  void* data_;
  MemoryHandle buffer_;
};

class Compiler {
 public:
  Compiler(const std::string& platform, const std::string& name) : device_(device_called(platform, name)) {
    cl_int code = CL_SUCCESS;
    context_ = ContextHandle(clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &code));
    check(code, "clCreateContext");
    queue_ = QueueHandle(clCreateCommandQueue(context_.get(), device_, 0, &code));
    check(code, "clCreateCommandQueue");
  }

  void compile(const CompileRequest& request) {
    ProgramHandle& program = programs_[request.program.options + "\n" + request.program.source];
    if (!program) program = build_program(context_.get(), device_, cache_, request.program);
    if (request.kernel.empty()) return;
    cl_int code = CL_SUCCESS;
    const KernelHandle kernel(clCreateKernel(program.get(), request.kernel.c_str(), &code));
    check(code, "clCreateKernel", request.kernel);
    std::list<Zeros> memory;
    cl_uint next = 0;
    const auto set = [&](const auto& value) { check(clSetKernelArg(kernel.get(), next++, sizeof value, &value), "clSetKernelArg"); };
    for (const Argument& argument : request.arguments)
      std::visit(
          [&]<class T>(const T& value) {
            if constexpr (std::is_same_v<T, Region>)
              set(value.bytes > 0 ? memory.emplace_back(context_.get(), value.bytes).get() : cl_mem{nullptr});
            else
              set(value);
            if (std::is_same_v<T, Region> && request.takes_offsets) set(cl_ulong{0});
          },
          argument);
    run(kernel.get(), request.range);
  }

 private:
  void run(cl_kernel kernel, const Range& range) {
    std::array<std::size_t, 3> global{}, local{};
    for (std::size_t d = 0; d < 3; ++d) global[d] = at(range.global[d]), local[d] = at(range.local[d]);
    cl_int code = CL_SUCCESS;
    const EventHandle begin(clCreateUserEvent(context_.get(), &code));  // when `crash` can know
    check(code, "clCreateUserEvent");
    const cl_event before = begin.get();
    EventHandle event;
    check(clEnqueueNDRangeKernel(queue_.get(), kernel, static_cast<cl_uint>(range.dimensions), nullptr, global.data(), local[0] > 0 ? local.data() : nullptr, 1,
                                 &before, event.place()),
          "clEnqueueNDRangeKernel");
    enqueued = event.get();
    const cl_int told = clSetEventCallback(
        event.get(), CL_RUNNING, [](cl_event, cl_int, void*) { answer(); }, nullptr);
    clSetUserEventStatus(before, CL_COMPLETE);
    code = clFinish(queue_.get());
    enqueued = nullptr;
    check(told, "clSetEventCallback");
    check(code, "clFinish");
  }

  cl_device_id device_;
  ContextHandle context_;
  QueueHandle queue_;
  ProgramCache cache_{std::nullopt, DeviceProfile()};
  std::map<std::string, ProgramHandle> programs_;
};

void serve(Compiler& compiler) {
  for (std::string text; receive_message(kSocket, text);) {
    if (!send_message(kSocket, kBegun)) return;
    answered = false;
    try {
      compiler.compile(request_from(text));
    } catch (const std::exception& e) {  // whoever asks meets the same
      std::fprintf(stderr, "%s\n", gemel::worded(e).c_str());
    }
    answer();
  }
}

}  // namespace
}  // namespace gemel::opencl

int main(int argc, char** argv) {
  using namespace gemel::opencl;
  if (argc != 3) {
    std::fprintf(stderr, "gemel-compile: Gemel starts it where a driver's compiler may crash; it is no command\n");
    return 2;
  }
  const rlimit none{};
  ::setrlimit(RLIMIT_CORE, &none);  // a crash here is no news
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL}) ::signal(signal, crash);
  try {
    Compiler compiler(argv[1], argv[2]);
    serve(compiler);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gemel-compile: %s\n", gemel::worded(e).c_str());
    return 1;
  }
}
