#include "opencl/wait.h"

namespace gemel::opencl {

cl_int wait(const EventHandle& event) {
  const cl_event waited = event.get();
  return waited ? clWaitForEvents(1, &waited) : CL_SUCCESS;
}

cl_int finish(cl_command_queue queue) {
  EventHandle last;
  const cl_int code = clEnqueueMarkerWithWaitList(queue, 0, nullptr, last.place());
  return code == CL_SUCCESS ? wait(last) : code;
}

}  // namespace gemel::opencl
