// Private to opencl/: buffers over memory that the caller gives.
#pragma once
#include <cstdint>
#include <string_view>

#include "engine/base/host_view.h"
#include "opencl/memory/block.h"

namespace gemel::opencl {

/// @throws UsageError where the memory does not begin a page or is too small
void check_takes(const HostBytes& memory, std::int64_t bytes, std::string_view what);

/// Makes the block one of `bytes` in that memory, which the driver keeps until nothing that is enqueued uses it.
/// @return clCreateBuffer's code
cl_int create_over(cl_context context, const HostBytes& memory, std::int64_t bytes, Block& block);

}  // namespace gemel::opencl
