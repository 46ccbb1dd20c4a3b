// Private to opencl/: buffers of devices that compute in the host's memory, in large pages where they are large.
#pragma once
#include <cstdint>

#include "opencl/memory/block.h"

namespace gemel::opencl {

inline constexpr std::int64_t kLargePage = std::int64_t{2} << 20;  // bytes

/// Makes the block one of `bytes` in memory of the host, whose address is then known. For large ones the operating system is asked to
/// use pages of 2 MiB: a driver that allocates by itself gets small ones, whose ends stop the CPU's prefetching and whose addresses
/// overflow its tables of translations. Whole large pages only, so that no more of the memory becomes resident than is used.
/// @param alignment  in bytes, of a small one  @return clCreateBuffer's code
cl_int allocate_on_host(cl_context context, std::int64_t bytes, std::int64_t alignment, Block& block);

}  // namespace gemel::opencl
