// Products within other operators, computed as a matmul of the same extents would be.
#pragma once
#include <vector>

#include "engine/core/op.h"
#include "engine/gradients/autograd.h"
#include "opencl/gemm/gemm.h"

namespace gemel::inline ops {

/// Attributes and specs of a matmul.
struct MatmulCase {
  Attributes attributes;
  Specs in, out;
};
/// Returns the matmul of a product's extents.
MatmulCase matmul_of(const opencl::GemmProblem& problem);

/// Returns the form that dispatch chooses for a matmul of these extents on the device, by measurement or rank and without regard to an epilogue.
const opencl::GemmForm& product_form(const opencl::GemmProblem& problem, const opencl::DeviceProfile& profile);

/// Computes left^T right of matrices [rows, *], the gradient of the float32 weight that is input i. It is postponed, added to the gradient's present sum, or
/// written to the gradient's place.
/// @return the gradient; empty if postponed
Value weight_gradient(const Backward& b, int i, const Value& left, const Value& right);

/// Returns the products that the variant "gemm" of a convolution or of its gradients computes.
/// @throws InternalError for another operator
std::vector<opencl::GemmProblem> products_of(const Problem& problem, const opencl::DeviceProfile& profile);

}  // namespace gemel::inline ops
