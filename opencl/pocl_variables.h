// Private to opencl/: PoCL's own environment variables, whose values it does not check.
#pragma once

namespace gemel::opencl {

/// Refuses what PoCL would end the process for while it starts.
/// @param threads  that a CPU device is to have; 0: as the variables say  @throws UsageError naming the variable
void check_pocl_variables(int threads);

}  // namespace gemel::opencl
