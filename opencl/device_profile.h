// DeviceProfile: facts about a device, and what its user asked for, from which kernel variants decide; they never ask who made it.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "engine/base/denormals.h"

namespace gemel::opencl {

class TuningTable;

enum class DeviceKind { cpu, gpu, accelerator };
/// "cpu", "gpu", "accelerator"
std::string to_string(DeviceKind kind);
enum class GemmChoice { automatic, clblast, native };

/// Iterations of one loop that an emulator runs: it may silently cut a work-item off after 65 535 of all its loops.
inline constexpr std::int64_t kEmulatedLoop = 1 << 14;

/// A virtual machine is told of its whole host's last cache. No core has more of one to itself; what is beyond is its neighbours'.
inline constexpr std::int64_t kCacheOfUnit = 16 << 20;

/// What a study leaves out of how a device computes, or fixes in it.
struct Ablation {
  std::map<std::string, std::string> variants = {};  // by operator: the variant that computes it wherever it is asked; others are dispatch's choice
  bool tuning = true;                                // choose as the tuning table of the device says
  bool memory_plan = true;                           // the slots of a graph share an arena; else each has memory of its own
  bool recorded_launches = true;                     // launches are enqueued again as they were recorded; else made afresh each time
  friend bool operator==(const Ablation&, const Ablation&) = default;
};

/// Devices that have an even part each, this one among them, of memory by which default limits go.
struct MemorySharers {
  int of_host = 1;     // of the host's memory
  int of_process = 1;  // of them those in this process, which share its address space
};

struct DeviceProfile {
  std::string platform, name, vendor, version, driver;
  DeviceKind kind = DeviceKind::cpu;
  bool is_emulator = false;  // a software stand-in for other hardware (llvmpipe, oclgrind): preferred last
  int compute_units = 1;
  int clock_mhz = 0;
  int simd_width = 1;                  // float lanes of a vector register
  bool has_real_local_memory = false;  // scratch memory of its own, not main memory under another name
  bool shares_host_memory = false;
  std::int64_t cache_bytes = 0;       // the last cache before main memory, at most kCacheOfUnit a unit; 0: unknown
  std::int64_t unit_cache_bytes = 0;  // the second cache, which each core of a CPU has to itself; 0: unknown
  std::int64_t global_bytes = 0;
  std::int64_t max_allocation_bytes = 0;
  std::int64_t max_group_size = 1;
  std::int64_t base_alignment_bytes = 128;         // of a sub-buffer's origin
  bool has_fma = false;                            // fused multiply-add in hardware; else `fma` would be computed by dozens of instructions
  bool overlaps_sub_buffers = true;                // else kernels take offsets into whole buffers (opencl/program/offset_arguments.h)
  bool parses_builtins = false;                    // its compiler parses a header with all built-in functions before each program
  GemmChoice gemm = GemmChoice::automatic;         // what the user asked for
  Denormals denormals = Denormals::keep;           // the same
  bool profiling = false;                          // all work is timed and told with its costs
  std::shared_ptr<const TuningTable> tuning = {};  // what measurements chose (opencl/program/tuning_table.h); null: nothing
  Ablation ablation = {};                          // what the user asked for

  bool is_cpu() const { return kind == DeviceKind::cpu; }
  bool is_pocl() const { return platform == "Portable Computing Language"; }
  /// Registers of 16 lanes, of which there are 32; else tiles are made for 16 of 8.
  bool has_wide_vectors() const { return simd_width >= 16; }
  /// Rough single-precision rate, only to rank devices: units x lanes x clock x 2.
  double estimated_gflops() const;
};

}  // namespace gemel::opencl
