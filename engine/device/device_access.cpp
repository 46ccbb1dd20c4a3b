#include "engine/device/device_access.h"

#include "engine/device/device_memory.h"
#include "opencl/device/device.h"

namespace gemel {

Event mark(Session& session) { return session.device().mark(opencl::Queue::compute); }
void wait_for(Session& session, const Event& event) { session.device().wait_for(opencl::Queue::compute, event); }
Fence make_fence(Session& session) { return session.device().make_fence(); }
bool computes_on_host(Session& session) { return session.device().profile().is_cpu(); }
HostView map(const Value& value, Access access, const Event& after) { return value.session().device().map(region_of(value), access, after); }

std::unique_ptr<Memory> memory_over(Session& session, const HostBytes& memory, std::int64_t bytes, std::string_view what) {
  return std::make_unique<DeviceMemory>(session.device().memory().adopt(memory, bytes, what));
}

}  // namespace gemel
