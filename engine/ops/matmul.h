// Products within other operators: they are computed as a matmul of the same extents would be.
#pragma once
#include "opencl/gemm.h"

namespace gemel {

/// What dispatch chooses for the matmul of these extents on the device, measured or ranked; its epilogue is not looked at.
const opencl::GemmForm& product_form(const opencl::GemmProblem& problem, const opencl::DeviceProfile& profile);

}  // namespace gemel
