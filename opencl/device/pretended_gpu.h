// Private to opencl/: makes another device choose kernels as a GPU does, for tests.
#pragma once
#include <string_view>

#include "opencl/device_profile.h"

namespace gemel::opencl {

/// Changes a profile to that of a GPU, so that kernels for GPUs are chosen. Memory stays as the driver reports it.
/// @param what  value of GEMEL_PRETEND: empty (no change), `gpu`, or `gpu:units=N,local=N,group=N` with the number of compute units (default: those of
///              the device), local=0 for no real local memory, and the largest number of work-items in a work-group
/// @throws UsageError for any other value
void pretend(DeviceProfile& profile, std::string_view what);

}  // namespace gemel::opencl
