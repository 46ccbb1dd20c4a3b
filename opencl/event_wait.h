// Private to opencl/: every wait of the host is for an event. Mesa's rusticl (22.3) returns at once from clFinish and from blocking transfers
// where another thread has flushed the queue in between, and holds the queue's lock while it waits in them.
#pragma once
#include "opencl/handle.h"

namespace gemel::opencl {

/// Until its work is complete; at once where there is none. @return the code of clWaitForEvents, or of the work where that failed
cl_int wait(const EventHandle& event);
/// Until all that has been enqueued is complete, as clFinish. @return the first code that is not CL_SUCCESS
cl_int finish(cl_command_queue queue);

}  // namespace gemel::opencl
