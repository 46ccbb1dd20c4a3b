// DeviceProfile: facts about a device, and what its user asked for, from which kernel variants decide; they never ask who made it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/denormals.h"

namespace gemel::opencl {

class TuningTable;

enum class DeviceKind { cpu, gpu, accelerator };
/// "cpu", "gpu", "accelerator"
std::string to_string(DeviceKind kind);
enum class GemmChoice { automatic, clblast, native };

/// Iterations that are asked of an emulator: some cut a work-item off after 65 535 of all its loops.
inline constexpr std::int64_t kEmulatedLoop = 1 << 14;
/// More than there ever are.
inline constexpr std::int64_t kAnyLoop = std::int64_t{1} << 60;

/// A virtual machine is told of its whole host's last cache. No core has more of one to itself; what is beyond is its neighbours'.
inline constexpr std::int64_t kCacheOfUnit = 16 << 20;

/// Devices that have an even part each, this one among them, of memory by which default limits go.
struct MemorySharers {
  int of_host = 1;     // of the host's memory
  int of_process = 1;  // of them those in this process, which share its address space
};

struct DeviceProfile {
  std::string platform, name, vendor, version, driver;
  DeviceKind kind = DeviceKind::cpu;
  bool is_emulator = false;              // a software stand-in for other hardware (llvmpipe, oclgrind): preferred last
  std::int64_t longest_loop = kAnyLoop;  // iterations of all loops of one work-item; an emulator may cut more short without a word
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

  bool is_cpu() const { return kind == DeviceKind::cpu; }
  /// Work-items of a unit run side by side, each in a lane, as on GPUs; else one after another, each with the unit's vectors to itself.
  bool runs_items_in_lanes() const { return !is_cpu(); }
  /// A work-item's vectors are those of the hardware: not so on a GPU, nor on an emulator of one.
  bool runs_vectors() const { return is_cpu() && !is_emulator; }
  bool is_pocl() const { return platform == "Portable Computing Language"; }
  /// Registers of 16 lanes, of which there are 32; else tiles are made for 16 of 8.
  bool has_wide_vectors() const { return simd_width >= 16; }
  /// Rough single-precision rate, only to rank devices: units x lanes x clock x 2.
  double estimated_gflops() const;
};

}  // namespace gemel::opencl
