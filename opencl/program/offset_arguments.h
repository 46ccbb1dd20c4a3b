// Private to opencl/: kernels for drivers on which sub-buffers must not overlap (DeviceProfile::overlaps_sub_buffers).
#pragma once
#include <string>

namespace gemel::opencl {

/// Each kernel takes the whole buffer and an offset in bytes where it took a sub-buffer: behind every parameter `__global T* p` it gets
/// `const ulong p_offset`, and begins by moving p there.
/// @param source  with all #includes resolved. A macro that stands for pointers among a kernel's parameters has no parameters itself.
std::string with_offset_arguments(const std::string& source);

}  // namespace gemel::opencl
