#include "opencl/device/kept_writes.h"

#include "engine/base/numbers.h"
#include "opencl/memory/block.h"

namespace gemel::opencl {

const EventHandle& KeptWrites::enqueue(cl_command_queue queue, const Region& to, std::shared_ptr<const std::vector<std::byte>> from) {
  forget_finished();
  EventHandle event;
  last_.check(clEnqueueWriteBuffer(queue, to.block->memory.get(), CL_FALSE, at(to.offset), from->size(), from->data(), 0, nullptr, event.place()),
              "clEnqueueWriteBuffer");
  return writes_.emplace_back(std::move(event), std::move(from)).first;
}

void KeptWrites::forget_finished() {
  while (!writes_.empty()) {
    cl_int status = CL_COMPLETE;
    check(clGetEventInfo(writes_.front().first.get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr), "clGetEventInfo");
    if (status < 0) last_.check(status, "clEnqueueWriteBuffer");
    if (status != CL_COMPLETE) return;
    writes_.pop_front();
  }
}

}  // namespace gemel::opencl
