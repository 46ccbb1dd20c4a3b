// Facts about a device for the record of a run.
#pragma once
#include <cstdint>
#include <string>

#include "engine/core/session.h"

namespace gemel {

struct DeviceFacts {
  std::string platform, name, version, driver, type;  // type: "CPU", "GPU", ...
  std::int64_t compute_units = 1, global_bytes = 0;
  std::string tuning;                 // hash of the tuning table, or "none"
  std::string denormals = "keep";     // "keep" or "flush"
  std::string precision = "float32";  // of products: "float32" or "tf32"
};

/// Facts about the session's device. The reference session gives "reference" as names and no numbers.
DeviceFacts facts_of(Session& session);

}  // namespace gemel
