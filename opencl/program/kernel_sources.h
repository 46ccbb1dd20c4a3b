// Kernel sources of opencl/kernels, embedded at build time.
#pragma once
#include <span>
#include <string_view>

namespace gemel::opencl {

struct KernelSource {
  std::string_view file, text;
};
std::span<const KernelSource> kernel_sources();

}  // namespace gemel::opencl
