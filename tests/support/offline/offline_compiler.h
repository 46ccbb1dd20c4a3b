// Compiles programs for GPUs that are not here, by what can do that without them: clang for AMD, clang and NVIDIA's ptxas, Intel's ocloc.
#pragma once
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/offline/gpu_programs.h"
#include "tests/support/offline/kernel_figures.h"

namespace gemel::testing {

enum class GpuMaker { amd, nvidia, intel };

struct OfflineTarget {
  const char* name;  // as its compiler calls it
  GpuMaker maker;
  bool is_main = false;           // the one of its maker for which programs are compiled that are compiled for one
  int least_sub_group_width = 0;  // as in the profile of such a device
  bool has_units = false;         // matrix units for TF32

  friend std::ostream& operator<<(std::ostream& out, const OfflineTarget& target) { return out << target.name; }
};

/// Vega 20, MI200, RDNA 2 and 3; Volta, Ampere, Hopper; Arc, Data Center GPU Max.
inline constexpr OfflineTarget kOfflineTargets[] = {{"gfx906", GpuMaker::amd},
                                                    {"gfx90a", GpuMaker::amd},
                                                    {"gfx1030", GpuMaker::amd, true},
                                                    {"gfx1100", GpuMaker::amd},
                                                    {"sm_70", GpuMaker::nvidia},
                                                    {"sm_80", GpuMaker::nvidia, true, 0, true},
                                                    {"sm_90", GpuMaker::nvidia, false, 0, true},
                                                    {"dg2", GpuMaker::intel, true, 8},
                                                    {"pvc", GpuMaker::intel, false, 16}};

/// What compilers say is kept in a folder of the build, so that they run again for what has changed alone.
class OfflineCompiler {
 public:
  OfflineCompiler();

  /// What is missing here to make PTX, and to compile for a target; empty: nothing.
  std::string lacks_for_ptx() const;
  std::string lacks(const OfflineTarget& target) const;
  /// What compiles for a target, with versions.
  std::string tools(const OfflineTarget& target) const;

  /// Of each kernel of a program. @throws std::runtime_error with what the compiler says
  std::vector<KernelFigures> figures(const GpuProgram& program, const OfflineTarget& target) const;
  /// 64-bit integer divisions in PTX, which shows them, as AMD's assembly does not; the source is the same for all makers.
  std::map<std::string, int> divisions(const GpuProgram& program) const;

 private:
  struct Tool {
    std::string command, version;  // empty: not here
  };
  const Tool& tool_of(const OfflineTarget& target) const;
  std::string ptx(const GpuProgram& program) const;

  Tool clang_, ptxas_, ocloc_;
};

}  // namespace gemel::testing
