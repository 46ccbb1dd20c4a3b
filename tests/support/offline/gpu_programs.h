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
/// @param least_sub_group_width  as in the device's profile: 0 but for Intel's
std::vector<GpuProgram> gpu_programs(int least_sub_group_width);
/// Those of variants for NVIDIA's matrix units, in both precisions.
std::vector<GpuProgram> unit_programs();
/// Whether it is one of these.
inline bool is_for_units(const GpuProgram& program) { return program.options.find("-DUNITS=MMA_SYNC") != std::string::npos; }

}  // namespace gemel::testing
