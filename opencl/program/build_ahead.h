// Private to opencl/: programs built side by side before they are needed, for drivers that compile kernels when they build a program.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "opencl/program/program_cache.h"

namespace gemel::opencl {

/// Builds on several threads. Where that takes more than a second, a line on standard error says what is being done.
/// @param device_name  in that line
/// @return [text] null where it does not build
std::vector<ProgramHandle> build_side_by_side(cl_context context, cl_device_id device, const ProgramCache& cache, std::span<const ProgramText> texts,
                                              std::size_t most_threads, const std::string& device_name);

}  // namespace gemel::opencl
