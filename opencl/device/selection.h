// Private to opencl/: finding a platform and a device by index or name.
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
/// "0.1": the second part of the device 0.
WantedDevice wanted_device(const std::string& text);

/// @throws UsageError for a platform or a device that is not there: lists those found  @throws DeviceError where none can be used
FoundDevice select_device(const std::string& platform, const std::string& device);

/// Indices, in its platform, of the usable devices of the kind of this one.
std::vector<std::string> devices_alike(const FoundDevice& device);

/// Sets what drivers read from the environment when they start: emulated platforms on, threads of a CPU device, and PoCL's workers on a
/// processor each where all of them are this process's (POCL_AFFINITY=0 leaves them to the scheduler); and opens PoCL's cache.
/// Only the first call before OpenCL is touched has an effect on drivers. Several threads may call it at once; it writes only what differs.
/// @throws DeviceError as DriverCache::open and check_process_limits do, UsageError as check_pocl_variables does
void prepare_environment(int threads);
/// Of programs that CLBlast builds from now on, by itself. It reads this as it builds, for whatever device, and keeps programs by the device's name:
/// where devices of a process differ in this, the last one opened decides for what is not built yet.
void tell_clblast(Denormals denormals);

}  // namespace gemel::opencl
