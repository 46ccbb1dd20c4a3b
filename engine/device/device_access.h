// Access to a session's device from other threads: wait for its work, delay its work, map the memory of its tensors.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/base/host_view.h"
#include "engine/core/session.h"

namespace gemel {

/// Event that is complete when all work that the session has enqueued so far is done. Any thread may wait for it.
/// @throws UsageError in the reference session, as all functions of this file
Event mark(Session& session);
/// Delays all further work of the session until the event is complete. The host does not wait.
void wait_for(Session& session, const Event& event);
/// Makes a fence for `wait_for`. The thread that completes it must not wait for work of the session behind the fence, nor allocate tensors.
Fence make_fence(Session& session);
/// True if the device computes on the cores of the host, so that a spinning thread slows it down.
bool computes_on_host(Session& session);
/// Maps the memory of a tensor to the host, as bytes of its element type. Any thread may call it. The tensor must outlive the view.
/// Writes by the host do not change the version of the tensor.
/// @param after  complete when the contents are computed and nothing else uses them
HostView map(const Value& value, Access access, const Event& after);

/// Makes device memory over host memory that the caller gives.
/// @param what  names the memory in messages
/// @throws UsageError if the host memory is not aligned to a page or is too small
std::unique_ptr<Memory> memory_over(Session& session, const HostBytes& memory, std::int64_t bytes, std::string_view what);

}  // namespace gemel
