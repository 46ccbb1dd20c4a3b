// Private to opencl/: rewrites kernels for drivers whose sub-buffers must not overlap (DeviceProfile::overlaps_sub_buffers).
#pragma once
#include <string>

namespace gemel::opencl {

/// Rewrites kernels to take a whole buffer and an offset in bytes in place of a sub-buffer: adds a parameter `const ulong p_offset` after each parameter
/// `__global T* p`, and code that adds it to p.
/// @param source  with all #includes resolved; macros that stand for pointer parameters of a kernel must have no parameters
std::string with_offset_arguments(const std::string& source);
/// The parameters of a kernel with such macros replaced, which begin behind `open`, a bracket in the source.
std::string parameters_behind(const std::string& source, std::size_t open);

}  // namespace gemel::opencl
