// Private to opencl/: PoCL's own environment variables, whose values it does not check.
#pragma once

#include "engine/base/resource_limits.h"

namespace gemel::opencl {

/// PoCL binds its workers to the processors 0, 1, ...: how many of these the process may use, before the first that it may not.
int processors_to_bind_to(const AllowedCores& cores);

/// Refuses what PoCL would end the process for while it starts.
/// @param threads  that a CPU device is to have; 0: as the variables say  @throws UsageError naming the variable
void check_pocl_variables(int threads);

}  // namespace gemel::opencl
