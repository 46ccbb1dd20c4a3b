// Commands and events of the stub driver: a command is finished when its call returns, also where it waits for a user event.
#include <span>

#include "tests/support/stub_driver/stub_objects.h"

namespace stub {
namespace {

/// Ends a call that enqueues a command.
cl_int enqueued(const char* function, cl_event* event) {
  if (const cl_int failed = failure(function); failed != CL_SUCCESS) return failed;
  const cl_int any = failure("command"), status = any != CL_SUCCESS ? any : failure(function, Fails::command);
  if (!event) return CL_SUCCESS;
  *event = new _cl_event;
  (*event)->status = status;  // of one that has run: CL_COMPLETE
  return CL_SUCCESS;
}

cl_int run_kernel(cl_command_queue, cl_kernel, cl_uint, const std::size_t*, const std::size_t*, const std::size_t*, cl_uint, const cl_event*, cl_event* event) {
  return enqueued("clEnqueueNDRangeKernel", event);
}

cl_int read_buffer(cl_command_queue, cl_mem from, cl_bool, std::size_t offset, std::size_t bytes, void* to, cl_uint, const cl_event*, cl_event* event) {
  std::memcpy(to, from->data + offset, bytes);
  return enqueued("clEnqueueReadBuffer", event);
}

cl_int write_buffer(cl_command_queue, cl_mem to, cl_bool, std::size_t offset, std::size_t bytes, const void* from, cl_uint, const cl_event*, cl_event* event) {
  std::memcpy(to->data + offset, from, bytes);
  return enqueued("clEnqueueWriteBuffer", event);
}

/// Memory that was never written is 0 at both ends, and a copy would take pages for it: nothing is copied.
cl_int copy_buffer(cl_command_queue, cl_mem, cl_mem, std::size_t, std::size_t, std::size_t, cl_uint, const cl_event*, cl_event* event) {
  return enqueued("clEnqueueCopyBuffer", event);
}

cl_int fill_buffer(cl_command_queue, cl_mem, const void*, std::size_t, std::size_t, std::size_t, cl_uint, const cl_event*, cl_event* event) {
  return enqueued("clEnqueueFillBuffer", event);
}

void* map_buffer(cl_command_queue, cl_mem memory, cl_bool, cl_map_flags, std::size_t offset, std::size_t, cl_uint, const cl_event*, cl_event* event,
                 cl_int* code) {
  const cl_int failed = enqueued("clEnqueueMapBuffer", event);
  if (code) *code = failed;
  return failed == CL_SUCCESS ? memory->data + offset : nullptr;
}

cl_int unmap(cl_command_queue, cl_mem, void*, cl_uint, const cl_event*, cl_event* event) { return enqueued("clEnqueueUnmapMemObject", event); }
cl_int marker(cl_command_queue, cl_uint, const cl_event*, cl_event* event) { return enqueued("clEnqueueMarkerWithWaitList", event); }
cl_int barrier(cl_command_queue, cl_uint, const cl_event*, cl_event* event) { return enqueued("clEnqueueBarrierWithWaitList", event); }
cl_int flush(cl_command_queue) { return failure("clFlush"); }
cl_int finish(cl_command_queue) { return failure("clFinish"); }
cl_int wait_for(cl_uint count, const cl_event* events) {
  for (const cl_event event : std::span(events, count)) {
    const std::lock_guard lock(event->mutex);
    if (event->status < 0) return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  }
  return failure("clWaitForEvents");
}

cl_event create_user_event(cl_context, cl_int* code) {
  const cl_int failed = failure("clCreateUserEvent");
  if (code) *code = failed;
  if (failed != CL_SUCCESS) return nullptr;
  auto* out = new _cl_event;
  out->status = CL_SUBMITTED;
  return out;
}

cl_int set_status(cl_event event, cl_int status) {
  std::vector<std::function<void(cl_event, cl_int)>> due;
  {
    const std::lock_guard lock(event->mutex);
    event->status = status;
    due.swap(event->callbacks);
  }
  for (const auto& call : due) call(event, status);
  return CL_SUCCESS;
}

cl_int call_when_done(cl_event event, cl_int, void (*call)(cl_event, cl_int, void*), void* with) {
  cl_int status = CL_COMPLETE;
  {
    const std::lock_guard lock(event->mutex);
    status = event->status;
    if (status > CL_COMPLETE) event->callbacks.emplace_back([call, with](cl_event e, cl_int s) { call(e, s, with); });
  }
  if (status <= CL_COMPLETE) call(event, status, with);
  return CL_SUCCESS;
}

cl_int event_info(cl_event event, cl_event_info what, std::size_t room, void* to, std::size_t* needed) {
  const std::lock_guard lock(event->mutex);
  switch (what) {
    case CL_EVENT_COMMAND_EXECUTION_STATUS:
      return give(event->status, room, to, needed);
    default:
      return CL_INVALID_VALUE;
  }
}

cl_int event_times(cl_event event, cl_profiling_info, std::size_t room, void* to, std::size_t* needed) {
  const std::lock_guard lock(event->mutex);
  if (event->status != CL_COMPLETE) return CL_PROFILING_INFO_NOT_AVAILABLE;
  return give(static_cast<cl_ulong>(event->at_ns), room, to, needed);
}

}  // namespace

void add_commands(cl_icd_dispatch& out) {
  out.clEnqueueNDRangeKernel = run_kernel;
  out.clEnqueueReadBuffer = read_buffer;
  out.clEnqueueWriteBuffer = write_buffer;
  out.clEnqueueCopyBuffer = copy_buffer;
  out.clEnqueueFillBuffer = fill_buffer;
  out.clEnqueueMapBuffer = map_buffer;
  out.clEnqueueUnmapMemObject = unmap;
  out.clEnqueueMarkerWithWaitList = marker;
  out.clEnqueueBarrierWithWaitList = barrier;
  out.clFlush = flush;
  out.clFinish = finish;
  out.clWaitForEvents = wait_for;
  out.clCreateUserEvent = create_user_event;
  out.clSetUserEventStatus = set_status;
  out.clSetEventCallback = call_when_done;
  out.clRetainEvent = retain<_cl_event>;
  out.clReleaseEvent = release<_cl_event>;
  out.clGetEventInfo = event_info;
  out.clGetEventProfilingInfo = event_times;
}

}  // namespace stub
