// Private to opencl/: a GPU's choices on a device that is none, for tests.
#pragma once
#include <string_view>

#include "opencl/device_profile.h"

namespace gemel::opencl {

/// Makes a profile look like a GPU's where `what`, the value of GEMEL_PRETEND, is `gpu` or `gpu:units=N,local=N,group=N`: kernels are chosen as for
/// a GPU of so many compute units (default: as many as the device has), which has local memory of its own but for local=0, and at most so many
/// work-items in a group. Memory stays as the driver says. Empty: nothing is done.
/// @throws UsageError where it is anything else
void pretend(DeviceProfile& profile, std::string_view what);

}  // namespace gemel::opencl
