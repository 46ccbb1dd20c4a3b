// Private to opencl/: programs built side by side before they are needed, for drivers that compile kernels when they build a program.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "opencl/program/program_cache.h"

namespace gemel::opencl {

/// What programs are built for, and by how many threads at most.
struct BuildTarget {
  cl_context context;
  cl_device_id device;
  const std::string& device_name;
  std::size_t threads;
};
/// Builds on several threads. Where that takes more than a second, a line on standard error says what is being done.
/// @return [text] null where it does not build
std::vector<ProgramHandle> build_side_by_side(const BuildTarget& target, const ProgramCache& cache, std::span<const ProgramText> texts);

}  // namespace gemel::opencl
