// Private to opencl/: buffers over host memory that the caller gives.
#pragma once
#include <cstdint>
#include <string_view>

#include "engine/base/host_view.h"
#include "opencl/memory/block.h"

namespace gemel::opencl {

/// Checks host memory. @throws UsageError if it is missing, not aligned to a page, or too small
void check_takes(const HostBytes& memory, std::int64_t bytes, std::string_view what);

/// Creates the buffer of a block over host memory. Keeps the memory alive until no enqueued work uses it.
/// @return code of clCreateBuffer
cl_int create_over(cl_context context, const HostBytes& memory, std::int64_t bytes, Block& block);

}  // namespace gemel::opencl
