// DeviceProfile: facts about a device, from which kernel variants decide, and which of them are preferred on it; they never ask who made it.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "engine/base/precision.h"

namespace gemel::opencl {

class TuningTable;

enum class DeviceKind { cpu, gpu, accelerator };
/// "cpu", "gpu", "accelerator"
std::string to_string(DeviceKind kind);

/// What multiplies blocks of numbers in one instruction of several work-items (kernels/lib/tiles/matrix_tile.clh).
enum class MatrixUnits {
  none,
  mma_sync,  // NVIDIA's, by inline PTX
  mma_model  // the same in C: of a device that pretends
};

/// More iterations than there ever are.
inline constexpr std::int64_t kAnyLoop = std::int64_t{1} << 60;

/// A virtual machine is told of its whole host's last cache. No core has more of one to itself; what is beyond is its neighbours'.
inline constexpr std::int64_t kCacheOfUnit = 16 << 20;

/// A variant that is asked for by name. Copies share whether a problem was found that it computes.
struct AskedVariant {
  std::string name;
  std::shared_ptr<std::atomic<bool>> is_used = std::make_shared<std::atomic<bool>>(false);
};

/// Variants that are preferred on a device, whatever their rank. They are a part of its profile since a variant asks the same of the products within it.
struct Preferences {
  std::string wanted, unwanted;                       // names of variants: one that computes whatever it can, and one that computes nothing
  std::map<std::string, AskedVariant> variants = {};  // by operator: the one that computes it wherever it is asked
  std::shared_ptr<const TuningTable> tuning = {};     // what measurements chose (opencl/program/tuning_table.h); null: nothing
  Precision precision = Precision::float32;           // that products may have at least
};

/// Devices that have an even part each, this one among them, of memory by which default limits go.
struct MemorySharers {
  int of_host = 1;     // of the host's memory
  int of_process = 1;  // of them those in this process, which share its address space
};

struct DeviceProfile {
  std::string platform, name, vendor, version, driver;
  std::string pretended;  // the GPU that it pretends to be (opencl/device/pretended_gpu.h), "h100" or "a GPU"; empty: none
  DeviceKind kind = DeviceKind::cpu;
  bool is_emulator = false;              // a software stand-in for other hardware (llvmpipe, oclgrind): preferred last
  std::int64_t longest_loop = kAnyLoop;  // iterations of all loops of one work-item that an emulator runs
  int compute_units = 1;
  int clock_mhz = 0;
  int simd_width = 1;                  // float lanes of a vector register
  int sub_group_width = 0;             // work-items that run in lockstep; 0: unknown
  int least_sub_group_width = 0;       // where a kernel may ask for a narrower one, whose items have more registers each; 0: it may not
  std::int64_t local_bytes = 0;        // scratch memory of a work-group
  bool has_real_local_memory = false;  // it is memory of its own, not main memory under another name
  bool shares_host_memory = false;
  bool stages_transfers = false;      // its memory lies beyond a bus: batches and results cross it while kernels run (opencl/device/staging.h)
  std::int64_t cache_bytes = 0;       // the last cache before main memory, at most kCacheOfUnit a unit; 0: unknown
  std::int64_t unit_cache_bytes = 0;  // the second cache, which each core of a CPU has to itself; 0: unknown
  std::int64_t global_bytes = 0;
  std::int64_t max_allocation_bytes = 0;
  std::int64_t max_group_size = 1;
  std::int64_t base_alignment_bytes = 128;       // of a sub-buffer's origin
  double stated_gflops = 0, stated_gbs = 0;      // peaks of float32 and of memory that were given; 0: to be measured
  double flops_a_byte = 0;                       // peak of float32 over that of memory, as the maker states them; 0: unknown
  MatrixUnits matrix_units = MatrixUnits::none;  // of a device that was not opened: those that it may have (opencl/device/matrix_units.h)
  bool has_fma = false;                          // fused multiply-add in hardware; else `fma` would be computed by dozens of instructions
  bool overlaps_sub_buffers = true;              // else kernels take offsets into whole buffers (opencl/program/offset_arguments.h)
  bool parses_builtins = false;                  // its compiler parses a header with all built-in functions before each program
  Preferences preferences = {};

  /// Products have the precision that was asked for. Without matrix units they are float32.
  Precision precision() const { return matrix_units == MatrixUnits::none ? Precision::float32 : preferences.precision; }
  bool is_cpu() const { return kind == DeviceKind::cpu; }
  /// Work-items of a unit run side by side, each in a lane, as on GPUs; else one after another, each with the unit's vectors to itself.
  bool runs_items_in_lanes() const { return !is_cpu(); }
  /// A work-item's vectors are those of the hardware: not so on a GPU, nor on an emulator of one.
  bool runs_vectors() const { return is_cpu() && !is_emulator; }
  bool is_pocl() const { return platform == "Portable Computing Language"; }
  /// Programs can be built before their kernels are asked for: the driver then compiles them, and in several threads at a time.
  bool builds_ahead() const { return !is_pocl() && !is_emulator; }
  /// Registers of 16 lanes, of which there are 32; else tiles are made for 16 of 8.
  bool has_wide_vectors() const { return simd_width >= 16; }
  /// Rough single-precision rate, only to rank devices: units x lanes x clock x 2.
  double estimated_gflops() const;
};

}  // namespace gemel::opencl
