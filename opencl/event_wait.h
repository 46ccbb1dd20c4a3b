// Private to opencl/: waits of the host, all by events. Mesa's rusticl (22.3) returns early from clFinish and blocking transfers if another thread has
// flushed the queue meanwhile, and holds the lock of the queue while it waits in them.
#pragma once
#include "opencl/handle.h"

namespace gemel::opencl {

/// Waits for an event; returns at once for an empty one. @return code of clWaitForEvents, or of the work if that failed
cl_int wait(const EventHandle& event);
/// Waits for all enqueued work, as clFinish. @return first code that is not CL_SUCCESS
cl_int finish(cl_command_queue queue);

}  // namespace gemel::opencl
