// Private to opencl/: the GEMM providers.
#pragma once
#include "opencl/gemm.h"

namespace gemel::opencl {

GemmProvider clblast_gemm();
GemmProvider native_gemm();

}  // namespace gemel::opencl
