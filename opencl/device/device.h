// Device: an OpenCL device with its context, in-order queues, memory and programs. Hides the types of the OpenCL headers.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/denormals.h"
#include "engine/base/event.h"
#include "engine/base/host_view.h"
#include "engine/base/precision.h"
#include "opencl/device_profile.h"
#include "opencl/memory/buffer.h"

namespace gemel::opencl {

/// An OpenCL platform and its devices; it may have none.
struct PlatformInfo {
  std::string name, vendor, version;
  std::vector<DeviceProfile> devices;
  std::vector<std::string> problems;  // [device] reason why it cannot be used, or empty
};
/// All platforms of the machine, in the order of the loader. Empty without OpenCL.
std::vector<PlatformInfo> platforms();

/// Value of an environment variable; empty if it is not set.
std::string from_environment(const char* name);

/// Which work is timed: none; the work enqueued while Device::time_work is on (sampled); or all, with names and costs.
enum class Profiling { off, sampled, all };

enum class GemmChoice { automatic, clblast, native };

/// What a study leaves out of how a device computes, or fixes in it.
struct Ablation {
  std::map<std::string, std::string> variants = {};  // by operator: the variant that computes it wherever it is asked; others are dispatch's choice
  bool tuning = true;                                // use the tuning table of the device
  bool memory_plan = true;                           // the slots of a graph share an arena; else each has memory of its own
  bool recorded_launches = true;                     // launches are enqueued again as they were recorded; else made afresh each time
  friend bool operator==(const Ablation&, const Ablation&) = default;
};

struct DeviceOptions {
  /// Index, or a part of the name in any case ("pocl" finds PoCL); empty: the platform of the best device.
  std::string platform = from_environment("GEMEL_PLATFORM");
  /// Index in the platform, "cpu" or "gpu"; empty: the best device. "0.1": CPU device 0 is divided into equal parts of `threads` compute units (0: of
  /// one), and its second part is opened.
  std::string device = from_environment("GEMEL_DEVICE");
  int threads = 0;                   // number of threads of a CPU device or a part of one; 0: all
  bool threads_are_a_share = false;  // `threads` is the share of one of several ranks: a device that cannot be divided is then used whole
  std::int64_t memory_limit = 0;     // bytes; 0: the smallest of device memory and, if it is host memory, cgroup limit and free memory
  MemorySharers memory_sharers = {};
  GemmChoice gemm = GemmChoice::automatic;
  Profiling profiling = Profiling::off;
  std::int64_t cache_bytes = -1;             // size of the last cache before main memory; -1: as the device reports
  int simd_width = 0;                        // float lanes for which kernels are compiled; 0: as the device has
  bool overlaps_sub_buffers = true;          // false: kernels take offsets, as for drivers whose sub-buffers must not overlap
  Denormals denormals = Denormals::keep;     // treatment of subnormal numbers in kernels
  Precision precision = Precision::float32;  // tf32: of products, where the device has matrix units
  Ablation ablation = {};
};

/// How an opened device computes and what it tells, whatever variants are chosen.
struct DeviceSettings {
  Denormals denormals = Denormals::keep;
  bool profiling = false;         // all work is timed and told with its costs
  bool memory_plan = true;        // as in Ablation
  bool recorded_launches = true;  // the same
};

/// Groups along the second and the third dimension that every driver takes: NVIDIA's refuses more.
inline constexpr std::int64_t kMostGroups = 65535;
/// Global and local extents of a launch, in work-items, of up to three dimensions. A local extent of 0 lets the driver choose.
struct Range {
  std::array<std::int64_t, 3> global{1, 1, 1}, local{0, 0, 0};
  int dimensions = 1;
  friend bool operator==(const Range&, const Range&) = default;
};
inline Range range1(std::int64_t global, std::int64_t local = 0) { return {{global, 1, 1}, {local, 0, 0}, 1}; }
inline Range range2(std::array<std::int64_t, 2> global, std::array<std::int64_t, 2> local = {0, 0}) {
  return {{global[0], global[1], 1}, {local[0], local[1], 0}, 2};
}
inline Range range3(std::array<std::int64_t, 3> global, std::array<std::int64_t, 3> local = {0, 0, 0}) { return {global, local, 3}; }

/// True if the range has no work-items.
inline bool is_empty(const Range& range) {
  return std::any_of(range.global.begin(), range.global.begin() + range.dimensions, [](std::int64_t extent) { return extent <= 0; });
}

/// Argument of a kernel: a `__global` pointer, an `int`, a `long` or a `float`.
using Argument = std::variant<Region, std::int32_t, std::int64_t, float>;

/// A program that launches ask for: a file of kernels with its options and what precedes it, or a generated one.
struct ProgramRequest {
  std::string title, options, preface;
  std::string generated;  // the source; empty: that of the file `title`
  friend auto operator<=>(const ProgramRequest&, const ProgramRequest&) = default;
};

class Kernel;  // one kernel of one program; lives as long as its device
class Recording;

/// Epilogue that a kernel computes on the elements of its output (kernels/epilogue.clh). Empty: none.
struct EpilogueCode {
  std::string_view text;                     // prepended to the source of the kernel
  std::span<const Argument> arguments = {};  // follow the arguments of the kernel; not needed to choose a kernel
};

/// Times of one command, or group of commands, on the queue, in nanoseconds of the device's clock.
struct TimedWork {
  std::string name;
  std::int64_t flops = 0, bytes = 0;
  std::int64_t begin_ns = 0, end_ns = 0;
};

/// A pending read. Its destructor waits, so that the memory outlives the transfer.
class PendingRead {
 public:
  virtual ~PendingRead() = default;
  /// Waits for the bytes.
  virtual std::span<const std::byte> get() = 0;
};

inline constexpr const char* kNoWork = "no work";

/// The two in-order queues of a device. Kernels, copies, fills, reads and writes use `compute`; maps and uploads of batches use `transfer`.
enum class Queue { compute, transfer };

/// An opened device. Several threads may enqueue on it.
class Device {
 public:
  /// Opens a device.
  /// @throws UsageError for an unknown platform, device or part; lists those found
  /// @throws DeviceError if there is no usable device, or it cannot be divided as asked
  static std::shared_ptr<Device> open(const DeviceOptions& options);
  /// Names, for DeviceOptions::device, of all usable devices of the same platform and kind as the one that the options select.
  static std::vector<std::string> alike(const DeviceOptions& options);
  virtual ~Device() = default;

  virtual const DeviceProfile& profile() const = 0;
  virtual const DeviceSettings& settings() const = 0;
  virtual Allocator& memory() = 0;

  /// A kernel of an embedded source file, built on first use: `kernel("cpu/softmax.cl", "softmax_rows", "-DT=float")`.
  /// @param preface  text that is prepended to the source
  /// @throws DeviceError with the build log if the program does not build
  virtual Kernel& kernel(std::string_view file, std::string_view name, std::string_view options = {}, std::string_view preface = {}) = 0;
  /// A kernel of generated source. `title` identifies the program; `source` is called once for each title. @throws DeviceError as `kernel`
  virtual Kernel& generated_kernel(std::string_view title, const std::function<std::string()>& source, std::string_view name) = 0;
  /// Builds programs before their kernels are asked for, side by side on all cores; where that takes more than a second, a line on standard error says so.
  /// What does not build is left to `kernel`. Does nothing where the profile's builds_ahead() is false.
  virtual void build(std::span<const ProgramRequest> /*programs*/) {}

  /// Enqueues a kernel. Does nothing for an empty range (a global extent of 0).
  /// @throws CompilerAbort if the compiler of the driver crashes over the kernel
  virtual void run(Kernel& kernel, const Range& range, std::span<const Argument> arguments) = 0;
  void run(Kernel& kernel, const Range& range, std::initializer_list<Argument> arguments) {
    run(kernel, range, std::span(arguments.begin(), arguments.size()));
  }
  void run(Kernel& kernel, const Range& range, std::vector<Argument> arguments, std::span<const Argument> more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    run(kernel, range, arguments);
  }
  /// Enqueues the commands of a recording of this device. @param operands  must satisfy Recording::fits  @throws CompilerAbort as `run`
  virtual void replay(const Recording& recording, std::span<const Region> operands) = 0;
  /// Enqueues a copy of `from.bytes` bytes.
  virtual void copy(const Region& from, const Region& to) = 0;
  /// Enqueues a fill with a repeated pattern of 1, 2, 4 or 8 bytes.
  virtual void fill(const Region& to, std::span<const std::byte> pattern) = 0;
  /// Enqueues a write. Copies the host bytes before it returns.
  virtual void write(const Region& to, std::span<const std::byte> from) = 0;
  /// Enqueues a write from bytes that the device keeps alive until the transfer is done. Where the profile's stages_transfers is true, they go while the
  /// compute queue still works.
  virtual void write(const Region& to, std::shared_ptr<const std::vector<std::byte>> from) = 0;
  /// Calls `make` to fill in the bytes. If the host shares the device's memory, waits for all enqueued work and fills the memory in place.
  virtual void write(const Region& to, const std::function<void(std::span<std::byte>)>& make) = 0;
  /// Reads bytes. Waits for all enqueued work. @throws DeviceError if a fence was broken
  virtual void read(const Region& from, std::span<std::byte> to) = 0;
  /// Enqueues a read of some regions without waiting: their bytes come one behind the other.
  virtual std::unique_ptr<PendingRead> read_later(std::span<const Region> from) = 0;
  std::unique_ptr<PendingRead> read_later(const Region& from) { return read_later(std::span(&from, 1)); }
  /// Waits for all work on the compute queue.
  virtual void finish() = 0;

  /// Event that is complete when all work enqueued on the queue so far is done.
  virtual Event mark(Queue queue) = 0;
  /// Delays all further work on the queue until the event is complete. The host does not wait. An emulator may run a queue in the thread that marks
  /// it, so another thread must complete a fence. @throws UsageError for an event of another device
  virtual void wait_for(Queue queue, const Event& event) = 0;
  /// Makes a fence. The thread that completes it must not wait for the compute queue, nor allocate, which may wait for that queue. Mesa 22.3's rusticl
  /// may block a thread that enqueues work behind the fence, so another thread must complete it.
  virtual Fence make_fence() = 0;
  /// Maps a region to the host. If the host shares the memory, copies nothing and waits for `after` only.
  /// @param after  complete when the device no longer uses the region
  /// @throws UsageError for an event of another device
  virtual HostView map(const Region& region, Access access, const Event& after) = 0;

  /// Lets another library enqueue on the compute queue. @param enqueue  receives the cl_command_queue and a place for a cl_event
  /// @param name  of the work; kNoWork: it is only asked something
  virtual void native(const std::function<void(void* queue, void** event)>& enqueue, std::string_view name) = 0;

  /// Calls `enqueue`. With profiling, all work that this thread enqueues during the call gets this name, and the last command, which does the work that
  /// the others prepare, gets the FLOPs and bytes. Several threads may call it at once. @throws InternalError for nested calls
  virtual void charge(std::string_view name, std::int64_t flops, std::int64_t bytes, const std::function<void()>& enqueue) = 0;
  enum class Timing { off, on };
  /// With sampled profiling, turns timing of further work on or off. Has no effect otherwise.
  virtual void time_work(Timing timing) = 0;
  /// Waits for all work. @return timed work since the last call, in queue order. Leaves out work of a call of `charge` that has not returned, and
  /// all work after it
  virtual std::vector<TimedWork> take_work() = 0;
  /// Timed work that has finished since the last call, in queue order. Does not wait.
  virtual std::vector<TimedWork> take_finished_work() = 0;
  /// Nanoseconds by which the host's monotonic clock (steady_ns) is ahead of the device's, within some microseconds. Requires profiling.
  virtual std::int64_t clock_lead_ns() = 0;
};

}  // namespace gemel::opencl
