// Makes another device choose kernels as a GPU does: for tests, and for `gemel roofline`, which counts for a GPU that is not here.
#pragma once
#include <string_view>

#include "opencl/device_profile.h"

namespace gemel::opencl {

/// The environment's variable by which each device pretends.
inline constexpr const char* kPretendVariable = "GEMEL_PRETEND";

/// Changes a profile to that of a GPU, so that kernels for GPUs are chosen. Memory stays as the driver reports it.
/// @param what  value of GEMEL_PRETEND: empty (no change), `gpu`, or `gpu:units=N,wave=N,local=N,group=N,tf32=N,cache=N,gflops=N,gbs=N,name=GPU` with any of
/// these,
///              of which a later one counts: compute units, work-items in lockstep, bytes of local memory (0: it is not real), most work-items of a group (no
///              device gets larger by it), whether it has matrix units (1; a model in C computes what they would), bytes of the last cache (0, where none
///              is given: unknown), the peaks that `gemel roofline` compares with, or all of these of a known GPU (opencl/device/known_gpus.h)
/// @param given_by  what the value was given by, as the error names it
/// @throws UsageError for any other value
void pretend(DeviceProfile& profile, std::string_view what, std::string_view given_by = kPretendVariable);

}  // namespace gemel::opencl
