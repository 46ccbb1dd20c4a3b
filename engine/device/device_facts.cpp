#include "engine/device/device_facts.h"

#include "opencl/device/device.h"
#include "opencl/program/tuning_table.h"

namespace gemel {

DeviceFacts facts_of(Session& session) {
  if (!session.has_device()) return {.platform = "reference", .name = "reference", .type = "reference", .tuning = "none"};
  const opencl::DeviceProfile& p = session.device().profile();
  return {p.platform,
          p.name,
          p.version,
          p.driver,
          to_string(p.kind),
          p.compute_units,
          p.global_bytes,
          opencl::tuning_name(p),
          to_string(session.device().settings().denormals),
          to_string(p.precision())};
}

}  // namespace gemel
