// Private to opencl/: makes another device choose kernels as a GPU does, for tests.
#pragma once
#include <string_view>

#include "opencl/device_profile.h"

namespace gemel::opencl {

/// Changes a profile to that of a GPU, so that kernels for GPUs are chosen. Memory stays as the driver reports it.
/// @param what  value of GEMEL_PRETEND: empty (no change), `gpu`, or `gpu:units=N,wave=N,local=N,group=N,cache=N,gflops=N,gbs=N,name=GPU` with any of these,
///              of which a later one counts: compute units, work-items in lockstep, bytes of local memory (0: it is not real), most work-items of a group (no
///              device gets larger by it), bytes of the last cache (0, where none is given: unknown), the peaks that `gemel roofline` compares with, or all of
///              these of a known GPU (opencl/device/known_gpus.h)
/// @throws UsageError for any other value
void pretend(DeviceProfile& profile, std::string_view what);

}  // namespace gemel::opencl
