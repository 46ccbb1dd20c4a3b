// Private to opencl/: buffers in host memory, in large pages if they are large.
#pragma once
#include <cstdint>

#include "opencl/memory/block.h"

namespace gemel::opencl {

inline constexpr std::int64_t kLargePage = std::int64_t{2} << 20;  // bytes

/// Creates the buffer of a block in host memory, so that its address is known. Requests pages of 2 MiB from the system for large buffers: drivers
/// allocate small pages, whose boundaries stop the CPU's prefetcher and whose number overflows its TLB. Only whole large pages are requested, so that
/// no more memory becomes resident than is used.
/// @param alignment  in bytes, for small buffers
/// @return code of clCreateBuffer
cl_int allocate_on_host(cl_context context, std::int64_t bytes, std::int64_t alignment, Block& block);

}  // namespace gemel::opencl
