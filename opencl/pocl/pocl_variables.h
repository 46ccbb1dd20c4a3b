// Private to opencl/: checks of PoCL's environment variables, which PoCL itself does not check.
#pragma once

#include "engine/base/resource_limits.h"

namespace gemel::opencl {

/// Number of workers that PoCL can bind: it uses processors 0, 1, ..., and may use those before the first that is not allowed.
int processors_to_bind_to(const AllowedCores& cores);

/// Checks variables for values over which PoCL would end the process when it starts.
/// @param threads  wanted number of threads of a CPU device; 0: as the variables say
/// @throws UsageError naming the variable
void check_pocl_variables(int threads);

}  // namespace gemel::opencl
