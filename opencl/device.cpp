#include "opencl/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <mutex>
#include <unordered_map>

#include "engine/base/error.h"
#include "engine/base/span.h"
#include "opencl/block.h"
#include "opencl/program_cache.h"
#include "opencl/selection.h"

namespace gemel::opencl {

class Kernel {
 public:
  KernelHandle handle;
  std::string name;
};

namespace {

std::int64_t number_in(const char* file) {
  std::ifstream in(file);
  std::int64_t value = 0;
  return in >> value && value > 0 ? value : INT64_MAX;  // "max" reads as no number: no limit
}

std::int64_t available_host_bytes() {
  std::ifstream in("/proc/meminfo");
  for (std::string key; in >> key;) {
    std::int64_t kilobytes = 0;
    if (key == "MemAvailable:" && in >> kilobytes) return kilobytes * 1024;
    in.ignore(1 << 16, '\n');
  }
  return INT64_MAX;
}

/// What may be held: PoCL, for one, grants more than the machine has, and the process is killed later.
std::int64_t default_limit(const DeviceProfile& p) {
  std::int64_t limit = p.global_bytes > 0 ? p.global_bytes : INT64_MAX;
  if (!p.shares_host_memory && !p.is_cpu()) return limit;
  limit = std::min(limit, number_in("/sys/fs/cgroup/memory.max"));
  limit = std::min(limit, number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  return std::min(limit, available_host_bytes());
}

/// A part of a CPU device, where its driver was started with more threads than are wanted.
DeviceHandle part_of(cl_device_id device, int threads) {
  const cl_device_partition_property wanted[] = {CL_DEVICE_PARTITION_BY_COUNTS, threads, CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};
  cl_device_id part = nullptr;
  cl_uint count = 0;
  check(clCreateSubDevices(device, wanted, 1, &part, &count), "clCreateSubDevices", fmt::format("{} threads", threads));
  return DeviceHandle(part);
}

class ClPendingRead : public PendingRead {
 public:
  ClPendingRead(EventHandle event, std::vector<std::byte> bytes) : event_(std::move(event)), bytes_(std::move(bytes)) {}
  ~ClPendingRead() override { wait(); }
  void start(cl_command_queue queue, cl_mem from) {
    cl_event event = nullptr;
    check(clEnqueueReadBuffer(queue, from, CL_FALSE, 0, bytes_.size(), bytes_.data(), 0, nullptr, &event), "clEnqueueReadBuffer");
    event_ = EventHandle(event);
  }
  std::span<const std::byte> get() override {
    check(wait(), "clWaitForEvents");
    return bytes_;
  }

 private:
  cl_int wait() {
    cl_event event = event_.get();
    return event ? clWaitForEvents(1, &event) : CL_SUCCESS;
  }
  EventHandle event_;
  std::vector<std::byte> bytes_;
};

class ClDevice : public Device {
 public:
  ClDevice(FoundDevice found, const DeviceOptions& options)
      : profile_(std::move(found.profile)), device_(found.device), cache_(ProgramCache::default_folder(), profile_) {
    profile_.gemm = options.gemm;
    profile_.profiling = options.profiling;
    if (options.threads > 0 && profile_.is_cpu() && options.threads < profile_.compute_units) {
      part_ = part_of(device_, options.threads);
      device_ = part_.get();
      profile_.compute_units = options.threads;
    }
    cl_int code = CL_SUCCESS;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(found.platform), 0};
    context_ = ContextHandle(clCreateContext(properties, 1, &device_, nullptr, nullptr, &code));
    check(code, "clCreateContext", profile_.name);
    queue_ = QueueHandle(clCreateCommandQueue(context_.get(), device_, options.profiling ? CL_QUEUE_PROFILING_ENABLE : 0, &code));
    check(code, "clCreateCommandQueue", profile_.name);
    allocator_ = make_allocator(context_.get(), profile_, options.memory_limit > 0 ? options.memory_limit : default_limit(profile_));
    error_ = allocator_->allocate(4 * sizeof(std::int32_t), "error word");
    const std::byte zero{};
    fill(whole(error_), std::span(&zero, 1));
  }
  ~ClDevice() override { clFinish(queue_.get()); }

  const DeviceProfile& profile() const override { return profile_; }
  Allocator& memory() override { return *allocator_; }

  Kernel& kernel(std::string_view file, std::string_view name, std::string_view options) override {
    return find(file, options, name, [&] { return embedded_source(file); });
  }
  Kernel& generated_kernel(std::string_view title, const std::function<std::string()>& source, std::string_view name) override {
    return find(title, "", name, source);
  }
  bool builds(const std::string& source) override {
    try {
      build_program(context_.get(), device_, ProgramCache(std::nullopt, profile_), "probe", source, "");
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  void run(Kernel& kernel, const Range& range, std::span<const Argument> arguments) override {
    std::size_t global[3] = {1, 1, 1}, local[3] = {1, 1, 1};
    for (std::size_t d = 0; d < at(range.dimensions); ++d) {
      if (range.global[d] <= 0) return;  // PoCL divides by zero
      global[d] = at(range.global[d]);
      local[d] = at(range.local[d]);
      if (range.local[0] > 0 && (local[d] == 0 || global[d] % local[d] != 0))
        throw InternalError(fmt::format("{}: {} items do not divide into groups of {}", kernel.name, global[d], local[d]));
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) set(kernel, narrow<cl_uint>(i), arguments[i]);
    check(clEnqueueNDRangeKernel(queue_.get(), kernel.handle.get(), narrow<cl_uint>(range.dimensions), nullptr, global,
                                 range.local[0] > 0 ? local : nullptr, 0, nullptr, event_for(kernel.name)),
          "clEnqueueNDRangeKernel", kernel.name);
  }

  void copy(const Region& from, const Region& to) override {
    if (from.bytes == 0) return;
    check(clEnqueueCopyBuffer(queue_.get(), from.block->memory.get(), to.block->memory.get(), at(from.offset), at(to.offset),
                              at(from.bytes), 0, nullptr, event_for("copy")),
          "clEnqueueCopyBuffer");
  }
  void fill(const Region& to, std::span<const std::byte> pattern) override {
    if (to.bytes == 0) return;
    check(clEnqueueFillBuffer(queue_.get(), to.block->memory.get(), pattern.data(), pattern.size(), at(to.offset), at(to.bytes), 0,
                              nullptr, event_for("fill")),
          "clEnqueueFillBuffer");
  }
  void write(const Region& to, std::span<const std::byte> from) override {
    write(to, std::make_shared<const std::vector<std::byte>>(from.begin(), from.end()));
  }
  void write(const Region& to, std::shared_ptr<const std::vector<std::byte>> from) override {
    if (from->empty()) return;
    forget_finished();
    cl_event event = nullptr;
    check(clEnqueueWriteBuffer(queue_.get(), to.block->memory.get(), CL_FALSE, at(to.offset), from->size(), from->data(), 0, nullptr, &event),
          "clEnqueueWriteBuffer");
    staged_.emplace_back(EventHandle(event), std::move(from));
  }
  void read(const Region& from, std::span<std::byte> to) override {
    if (to.empty()) return;
    check(clEnqueueReadBuffer(queue_.get(), from.block->memory.get(), CL_TRUE, at(from.offset), to.size(), to.data(), 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
    forget_finished();
  }
  std::unique_ptr<PendingRead> read_later(const Region& from) override {
    auto pending = std::make_unique<ClPendingRead>(EventHandle(), std::vector<std::byte>(at(from.bytes)));
    pending->start(queue_.get(), memory_of(from));
    flush();
    return pending;
  }
  void flush() override { check(clFlush(queue_.get()), "clFlush"); }
  void finish() override {
    check(clFinish(queue_.get()), "clFinish");
    forget_finished();
  }
  Region error_word() override { return whole(error_); }

  void announce(std::string_view name, std::int64_t flops, std::int64_t bytes) override {
    next_ = {std::string(name), flops, bytes, 0, 0};
  }
  std::vector<Work> take_work() override {
    finish();
    std::vector<Work> out;
    for (Timed& t : timed_) {
      cl_ulong begin = 0, end = 0;
      check(clGetEventProfilingInfo(t.event, CL_PROFILING_COMMAND_START, sizeof begin, &begin, nullptr), "clGetEventProfilingInfo");
      check(clGetEventProfilingInfo(t.event, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr), "clGetEventProfilingInfo");
      clReleaseEvent(t.event);
      t.work.begin_ns = static_cast<std::int64_t>(begin);
      t.work.end_ns = static_cast<std::int64_t>(end);
      out.push_back(std::move(t.work));
    }
    timed_.clear();
    return out;
  }
  void native(const std::function<void(void* queue, void** event)>& enqueue, std::string_view name) override {
    cl_event event = nullptr;
    enqueue(queue_.get(), reinterpret_cast<void**>(&event));
    if (cl_event* kept = event_for(std::string(name)); kept && event)
      *kept = event;
    else if (event)
      clReleaseEvent(event);
  }

 private:
  struct Timed {
    Work work;
    cl_event event = nullptr;
  };

  /// Where the driver is to put the event of the next work: nowhere unless work is timed.
  cl_event* event_for(const std::string& name) {
    if (!profile_.profiling) return nullptr;
    Work work = std::exchange(next_, Work{});
    work.name = work.name.empty() ? name : work.name == name ? name : work.name + "/" + name;
    timed_.push_back({std::move(work), nullptr});
    return &timed_.back().event;
  }

  void set(Kernel& kernel, cl_uint i, const Argument& argument) {
    struct Set {
      cl_kernel kernel;
      cl_uint i;
      cl_int operator()(const Region& r) const {
        cl_mem memory = memory_of(r);
        return clSetKernelArg(kernel, i, sizeof memory, &memory);
      }
      cl_int operator()(std::int32_t v) const { return clSetKernelArg(kernel, i, sizeof v, &v); }
      cl_int operator()(std::int64_t v) const { return clSetKernelArg(kernel, i, sizeof v, &v); }
      cl_int operator()(float v) const { return clSetKernelArg(kernel, i, sizeof v, &v); }
      cl_int operator()(LocalBytes v) const { return clSetKernelArg(kernel, i, at(v.bytes), nullptr); }
    };
    const cl_int code = std::visit(Set{kernel.handle.get(), i}, argument);
    if (code != CL_SUCCESS) check(code, "clSetKernelArg", fmt::format("argument {} of {}", i, kernel.name));
  }

  template <class Source>
  Kernel& find(std::string_view title, std::string_view options, std::string_view name, const Source& source) {
    key_.assign(title).append("\n").append(options).append("\n");
    const std::size_t program_key = key_.size();
    key_.append(name);
    if (const auto it = kernels_.find(key_); it != kernels_.end()) return it->second;
    const std::string program_name = key_.substr(0, program_key);
    ProgramHandle& program = programs_[program_name];
    if (!program) program = build_program(context_.get(), device_, cache_, std::string(title), source(), std::string(options));
    cl_int code = CL_SUCCESS;
    Kernel made{KernelHandle(clCreateKernel(program.get(), std::string(name).c_str(), &code)), std::string(name)};
    check(code, "clCreateKernel", fmt::format("{} of {}", name, title));
    return kernels_.emplace(key_, std::move(made)).first->second;
  }

  void forget_finished() {
    while (!staged_.empty()) {
      cl_int status = CL_COMPLETE;
      check(clGetEventInfo(staged_.front().first.get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr), "clGetEventInfo");
      if (status < 0) check(status, "clEnqueueWriteBuffer");
      if (status != CL_COMPLETE) return;
      staged_.pop_front();
    }
  }

  DeviceProfile profile_;
  cl_device_id device_;
  DeviceHandle part_;
  ContextHandle context_;
  QueueHandle queue_;
  std::shared_ptr<Allocator> allocator_;
  Buffer error_;
  ProgramCache cache_;
  std::unordered_map<std::string, ProgramHandle> programs_;
  std::unordered_map<std::string, Kernel> kernels_;
  std::string key_;
  std::deque<std::pair<EventHandle, std::shared_ptr<const std::vector<std::byte>>>> staged_;
  std::deque<Timed> timed_;
  Work next_;
};

}  // namespace

std::unique_ptr<Device> Device::open(const DeviceOptions& options) {
  prepare_environment(options.threads);
  return std::make_unique<ClDevice>(select_device(options.platform, options.device), options);
}

}  // namespace gemel::opencl
