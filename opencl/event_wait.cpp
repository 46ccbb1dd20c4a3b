#include "opencl/event_wait.h"

namespace gemel::opencl {

cl_int wait(const EventHandle& event) {
  const cl_event waited = event.get();
  const cl_int code = waited ? clWaitForEvents(1, &waited) : CL_SUCCESS;
  if (code != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) return code;
  cl_int status = CL_COMPLETE;  // negative where the command failed, and why
  const cl_int asked = clGetEventInfo(waited, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
  return asked == CL_SUCCESS && status < 0 ? status : code;
}

cl_int finish(cl_command_queue queue) {
  EventHandle last;
  const cl_int code = clEnqueueMarkerWithWaitList(queue, 0, nullptr, last.place());
  return code == CL_SUCCESS ? wait(last) : code;
}

}  // namespace gemel::opencl
