// What a thread beside the session's may do with its device: wait for its work, hold work back, and see the memory of tensors.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/base/host_view.h"
#include "engine/core/session.h"

namespace gemel {

/// Happens when all that the session has computed so far is in its tensors. Any thread may wait for it.
/// @throws UsageError in the reference session, like all of these
Event mark(Session& session);
/// What the session computes from now on starts after the event; the host goes on.
void wait_for(Session& session, const Event& event);
/// For `wait_for`, and in the hands of whoever computes on the host what the session is to wait for. That thread must not wait for the
/// session's own work behind it, nor allocate tensors.
Fence make_fence(Session& session);
/// Whether the device computes with the host's own cores, which a thread that spins takes from it.
bool computes_on_host(Session& session);
/// The bytes of a tensor as the host sees them, in its own element type. From any thread; the tensor must outlive the view.
/// What the host writes is not counted as a write of the session's.
/// @param after  when its contents are computed, and nothing else uses them
HostView map(const Value& value, Access access, const Event& after);

/// Memory of a device's tensors in memory that the caller gives.
/// @param what  names it in messages  @throws UsageError where it does not begin a page or is too small
std::unique_ptr<Memory> memory_over(Session& session, const HostBytes& memory, std::int64_t bytes, std::string_view what);

}  // namespace gemel
