#include "opencl/device/host_views.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "engine/base/numbers.h"
#include "opencl/event_wait.h"
#include "opencl/memory/block.h"
#include "opencl/program/compilation_log.h"
#include "opencl/program/kernel.h"

namespace gemel::opencl {
namespace {

constexpr const char* kProbe = "__kernel void increment(__global int* x) { x[get_global_id(0)] += 1; }\n";

struct Free {
  void operator()(int* memory) const { std::free(memory); }
};

template <class T>
void set(Kernel& kernel, cl_uint i, const T& value) {
  check(clSetKernelArg(kernel.handle.get(), i, sizeof value, &value), "clSetKernelArg", kernel.name);
}

/// Whether a kernel sees what the host wrote last, and the host what the kernel wrote, without a transfer or a map.
bool sees_the_same_memory(cl_context context, cl_command_queue queue, Kernel& increment) {
  constexpr std::size_t kCount = kHostPage / sizeof(int);
  const std::unique_ptr<int, Free> memory(static_cast<int*>(std::aligned_alloc(kHostPage, kHostPage)));
  if (!memory) return false;
  const std::span numbers(memory.get(), kCount);
  cl_int code = CL_SUCCESS;
  const MemoryHandle buffer(clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, kHostPage, memory.get(), &code));
  if (code != CL_SUCCESS) return false;
  set(increment, 0, buffer.get());
  for (const int written : {1, 100}) {
    std::ranges::fill(numbers, written);
    check(clEnqueueNDRangeKernel(queue, increment.handle.get(), 1, nullptr, &kCount, nullptr, 0, nullptr, nullptr), "clEnqueueNDRangeKernel", increment.name);
    check(finish(queue), "clWaitForEvents", increment.name);
    if (std::ranges::count(numbers, written + 1) != std::ssize(numbers)) return false;
  }
  return true;
}

cl_map_flags flags_for(Access access) {
  if (access == Access::read) return CL_MAP_READ;
  return access == Access::write ? CL_MAP_WRITE_INVALIDATE_REGION : CL_MAP_READ | CL_MAP_WRITE;
}

}  // namespace

bool HostViews::computes_in_host_memory() {
  std::call_once(probed_, [this] {
    if (!device_.profile().shares_host_memory) return;
    Kernel& increment = device_.generated_kernel(
        "host memory probe", [] { return std::string(kProbe); }, "increment");
    const BuildTurns::Turn turn = turns_ ? turns_->take() : BuildTurns::Turn();
    if (!device_.profile().overlaps_sub_buffers) set(increment, 1, cl_ulong{0});  // the offset
    // The queue for computing may be held back by a fence that waits for the very thread that maps.
    const CompilationWatch watch(device_.profile().is_pocl() ? 1 : 0, queues_.get(Queue::transfer));
    computes_in_host_memory_ = sees_the_same_memory(queues_.context(), queues_.get(Queue::transfer), increment);
  });
  return computes_in_host_memory_;
}

HostView HostViews::map(const Region& region, Access access, const Event& after) {
  if (region.bytes == 0) return {{}, after};
  if (region.block->host && computes_in_host_memory()) return {{region.block->host + region.offset, at(region.bytes)}, after};
  return mapped(region, access, after);
}

HostView HostViews::mapped(const Region& region, Access access, const Event& after) {
  const cl_command_queue queue = queues_.get(Queue::transfer);
  const cl_event wanted = queues_.handle_in(after);
  const cl_mem memory = region.block->memory.get();
  EventHandle ready;
  cl_int code = CL_SUCCESS;
  void* bytes = clEnqueueMapBuffer(queue, memory, CL_FALSE, flags_for(access), at(region.offset), at(region.bytes), wanted ? 1 : 0, wanted ? &wanted : nullptr,
                                   ready.place(), &code);
  LastWork& work = queues_.last_work();
  work.check_on(Queue::transfer, code, "clEnqueueMapBuffer", region.block->what);
  work.note("a map to the host", Queue::transfer);
  work.check_on(Queue::transfer, clFlush(queue), "clFlush");
  const auto unmap = [queue, memory, bytes, &queues = queues_, &work] {
    EventHandle done;
    work.check_on(Queue::transfer, clEnqueueUnmapMemObject(queue, memory, bytes, 0, nullptr, done.place()), "clEnqueueUnmapMemObject");
    work.note("the end of a map to the host", Queue::transfer);
    work.check_on(Queue::transfer, clFlush(queue), "clFlush");
    return queues.event_of(Queue::transfer, std::move(done));
  };
  return {{static_cast<std::byte*>(bytes), at(region.bytes)}, queues_.event_of(Queue::transfer, std::move(ready), after), unmap};
}

}  // namespace gemel::opencl
