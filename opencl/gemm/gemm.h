// GEMM, C = op(A) op(B) or C += op(A) op(B), all matrices row-major, in several forms: CLBlast's and Gemel's own.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/base/transpose.h"
#include "opencl/device/device.h"
#include "opencl/program/tuning_table.h"

namespace gemel::opencl {

/// op(A) is [m, k], op(B) [k, n], C [m, n]; `batch` of them at fixed strides (in elements; 0 repeats the same matrix).
struct GemmProblem {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  Transpose a = Transpose::no, b = Transpose::no;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  bool accumulate = false;     // C += op(A) op(B); otherwise C is not read
  EpilogueCode epilogue = {};  // computed on C [batch, m, n], whose columns are its columns
};

/// Where the matrices lie, and what a form asked for as its workspace.
struct GemmOperands {
  Region a, b, c, workspace;
};

/// One way to compute it: a variant of `matmul`, by which the convolutions' products are chosen too.
struct GemmForm {
  const char* name;
  const char* doc;
  /// nullptr where it can compute the problem right, else why not.
  const char* (*declines)(const GemmProblem&, const DeviceProfile&);
  /// How fast it is expected to be on the device, larger being faster.
  int (*rank)(const GemmProblem&, const DeviceProfile&);
  std::int64_t (*workspace_bytes)(const GemmProblem&, const DeviceProfile&);
  void (*run)(Device&, const GemmProblem&, const GemmOperands&);
};

/// The kernels of CLBlast's GEMM that have parameters.
std::span<const std::string_view> clblast_kernels();
/// Has CLBlast's own tuner measure one of them, and CLBlast use the best on this device from now on.
/// @param size  of the matrices' sides  @param one_in  one in so many of its parameters is tried, at least 1
/// @throws DeviceError where the tuner fails
ClblastParameters tune_clblast(Device& device, std::string_view kernel, std::int64_t size, double one_in);

/// CLBlast's first; the last takes all but what CLBlast was asked for and takes.
std::span<const GemmForm> gemm_forms();

}  // namespace gemel::opencl
