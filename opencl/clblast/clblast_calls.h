// Private to opencl/clblast/: what calls of CLBlast share.
#pragma once
#include <clblast.h>

#include <string>
#include <unordered_map>

namespace gemel::opencl {

using ClblastTable = std::unordered_map<std::string, std::size_t>;  // as it takes and gives parameters

/// Its status is OpenCL's code where a call to OpenCL failed, so that exhaustion is a memory error here too. @throws DeviceError, MemoryError
void require_clblast(clblast::StatusCode status, const std::string& what = "Gemm");
cl_device_id device_of(cl_command_queue queue);

}  // namespace gemel::opencl
