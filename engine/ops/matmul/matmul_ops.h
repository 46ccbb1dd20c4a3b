// Products within other operators: they are computed as a matmul of the same extents would be.
#pragma once
#include <vector>

#include "engine/core/op.h"
#include "engine/gradients/autograd.h"
#include "opencl/gemm/gemm.h"

namespace gemel::inline ops {

/// What a matmul consists of.
struct MatmulCase {
  Attributes attributes;
  Specs in, out;
};
/// The matmul of a product's extents.
MatmulCase matmul_of(const opencl::GemmProblem& problem);

/// What dispatch chooses for the matmul of these extents on the device, measured or ranked; its epilogue is not looked at.
const opencl::GemmForm& product_form(const opencl::GemmProblem& problem, const opencl::DeviceProfile& profile);

/// left^T right of matrices [rows, *] as a rule's gradient of the float32 weight that is input i: postponed, added to the sum that it would
/// join, or in the memory that it has. @return empty where it is postponed
Value weight_gradient(const Backward& b, int i, const Value& left, const Value& right);

/// The products by which the variant "gemm" of a convolution or its gradients computes a problem.
/// @throws InternalError for another operator
std::vector<opencl::GemmProblem> products_of(const Problem& problem, const opencl::DeviceProfile& profile);

}  // namespace gemel::inline ops
