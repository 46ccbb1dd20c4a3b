// Private to opencl/: how much device memory may be held.
#pragma once
#include <cstdint>
#include <filesystem>

#include "opencl/device_profile.h"

namespace gemel::opencl {

/// Bytes: the least of the device's memory and, where it is the host's, of the control groups' limits, what is free, and what the process may map.
/// PoCL, for one, grants more than the machine has, and the process is killed later.
/// @param root  where proc and sys lie
std::int64_t default_memory_limit(const DeviceProfile& profile, MemorySharers sharers = {}, const std::filesystem::path& root = "/");

/// Before drivers start, which crash where memory or stack runs out. @throws DeviceError where a limit of the process leaves them too little
void check_process_limits(const std::filesystem::path& root = "/");

}  // namespace gemel::opencl
