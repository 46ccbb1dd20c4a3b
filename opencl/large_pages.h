// Private to opencl/: buffers of devices that compute in the host's memory, in large pages.
#pragma once
#include <cstdint>

#include "opencl/block.h"

namespace gemel::opencl {

inline constexpr std::int64_t kLargePage = std::int64_t{2} << 20;  // bytes

/// A buffer of `bytes` in memory of the host for which the operating system is asked to use pages of 2 MiB: a driver that allocates
/// by itself gets small ones, whose ends stop the CPU's prefetching and whose addresses overflow its tables of translations.
/// Whole large pages only, so that no more of the memory becomes resident than is used. Small buffers are left to the driver.
/// Fills in the block's memory, and where it is in the host's.
/// @return clCreateBuffer's code
cl_int allocate_in_large_pages(cl_context context, std::int64_t bytes, Block& block);

}  // namespace gemel::opencl
