// What a record of a run says of the device that it ran on.
#pragma once
#include <cstdint>
#include <string>

#include "engine/core/session.h"

namespace gemel {

struct DeviceFacts {
  std::string platform, name, version, driver, type;  // type: "CPU", "GPU", ...
  std::int64_t compute_units = 1, global_bytes = 0;
  std::string tuning;              // of the table by which choices are made: a hash, or "none"
  std::string denormals = "keep";  // or "flush"
};

/// Of the session's device. The reference session has none: its facts are "reference", without numbers.
DeviceFacts facts_of(Session& session);

}  // namespace gemel
