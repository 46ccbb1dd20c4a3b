// CLBlast's GEMM, and its own tuners.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "opencl/gemm_problem.h"
#include "opencl/program/tuning_table.h"

namespace gemel::opencl {

/// Whether its 32-bit offsets, strides and leading dimensions reach every element.
bool clblast_reaches(const GemmProblem& problem);
/// Enqueues a float32 product without an epilogue. @throws DeviceError, MemoryError where CLBlast fails
void clblast_gemm(Device& device, const GemmProblem& problem, const GemmOperands& operands);

/// The kernels of CLBlast's GEMM that have parameters.
std::span<const std::string_view> clblast_kernels();
/// Has CLBlast's own tuner measure one of them, and CLBlast use the best on this device from now on.
/// @param size  of the matrices' sides  @param one_in  one in so many of its parameters is tried, at least 1
/// @throws DeviceError where the tuner fails
ClblastParameters tune_clblast(Device& device, std::string_view kernel, std::int64_t size, double one_in);

}  // namespace gemel::opencl
