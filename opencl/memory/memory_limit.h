// Private to opencl/: default limit on device memory, and limits of the process that drivers need.
#pragma once
#include <cstdint>
#include <filesystem>

#include "opencl/device_profile.h"

namespace gemel::opencl {

/// Default memory limit in bytes: the device's memory; for host memory at most the sharers' part of the cgroup limit and of free memory, and what the
/// process may map. PoCL, for one, allocates more than the machine has, and the process is killed later.
/// @param root  folder that holds proc and sys
std::int64_t default_memory_limit(const DeviceProfile& profile, MemorySharers sharers = {}, const std::filesystem::path& root = "/");

/// Checks the limits of the process (ulimit) before drivers start, because drivers crash if memory, stack or files run out.
/// @throws DeviceError if a limit is too low
void check_process_limits(const std::filesystem::path& root = "/");

}  // namespace gemel::opencl
