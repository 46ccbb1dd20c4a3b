// Private to opencl/: selection of a platform and a device by index or name.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "opencl/device/device.h"
#include "opencl/handle.h"

namespace gemel::opencl {

struct FoundDevice {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  DeviceProfile profile;
};

struct WantedDevice {
  std::string device;
  std::optional<int> part;
};
/// Parses the name of a device; "0.1" is part 1 of device 0.
WantedDevice wanted_device(const std::string& text);

/// Selects the best matching device.
/// @throws UsageError for an unknown platform or device; lists those found
/// @throws DeviceError if no matching device is usable
FoundDevice select_device(const std::string& platform, const std::string& device);

/// Indices, within the platform, of all usable devices of the same kind as this one.
std::vector<std::string> devices_alike(const FoundDevice& device);

/// Sets environment variables that drivers read when they start: enables emulated platforms, sets the number of threads of CPU devices, and binds PoCL's
/// workers to processors if this process may use all of them (POCL_AFFINITY=0 prevents it). Opens PoCL's cache.
/// Affects drivers only before the first OpenCL call. Several threads may call it at once; it writes only variables that change.
/// @throws DeviceError as DriverCache::open and check_process_limits
/// @throws UsageError as check_pocl_variables
void prepare_environment(int threads);
/// Sets the treatment of subnormal numbers in programs that CLBlast builds from now on, by an environment variable that it reads for every build.
/// CLBlast caches programs by the name of the device: if devices of a process differ, the last opened one decides for programs not built yet.
void tell_clblast(Denormals denormals);

}  // namespace gemel::opencl
