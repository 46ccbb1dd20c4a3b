// The programs whose kernels a GPU may get, listed without a device.
#pragma once
#include <string>
#include <vector>

namespace gemel::testing {

struct GpuProgram {
  std::string title;  // the file below opencl/kernels, or a name of what is generated
  std::string options, text;
  bool has_epilogue = false;  // something follows a product in its kernel

  bool is_generated() const { return !title.ends_with(".cl"); }
  friend auto operator<=>(const GpuProgram&, const GpuProgram&) = default;
};

/// Those that all samples of all operators ask for, in every variant that a GPU may get; sorted, each once.
std::vector<GpuProgram> gpu_programs();

}  // namespace gemel::testing
