// GEMM: what is computed, C = op(A) op(B) or C += op(A) op(B), all matrices row-major, and where the matrices lie.
#pragma once
#include <cstdint>

#include "engine/base/dtype.h"
#include "engine/base/transpose.h"
#include "opencl/device/device.h"

namespace gemel::opencl {

/// Element types: of A and B, of the sums over k, of C.
struct GemmTypes {
  DType in = DType::float32, accumulate = DType::float32, out = DType::float32;
  friend bool operator==(const GemmTypes&, const GemmTypes&) = default;
};

/// op(A) is [m, k], op(B) [k, n], C [m, n]; `batch` of them at fixed strides (in elements; 0 repeats the same matrix).
struct GemmProblem {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  Transpose a = Transpose::no, b = Transpose::no;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  GemmTypes types = {};
  bool adds = false;           // C += op(A) op(B); otherwise C is not read
  EpilogueCode epilogue = {};  // computed on C [batch, m, n], whose columns are its columns
};

/// Where the matrices lie, and the workspace that the form asked for.
struct GemmOperands {
  Region a, b, c, workspace;
};

}  // namespace gemel::opencl
