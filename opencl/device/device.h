// Device: one OpenCL device with its context, in-order queues, memory and programs. No type of the OpenCL headers shows.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
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
#include "opencl/device_profile.h"
#include "opencl/memory/buffer.h"

namespace gemel::opencl {

/// What the machine offers. Platforms without devices are listed too.
struct PlatformInfo {
  std::string name, vendor, version;
  std::vector<DeviceProfile> devices;
  std::vector<std::string> problems;  // [device]: why it cannot be used, or empty
};
/// @return every platform in the loader's order; empty where there is no OpenCL at all
std::vector<PlatformInfo> platforms();

/// What an environment variable holds; empty where it is not set.
std::string from_environment(const char* name);

/// Which work is timed: none, what is enqueued while Device::time_work says so, or all, under names and with its costs.
enum class Profiling { off, sampled, all };

struct DeviceOptions {
  /// Index, or a part of the name in any case ("pocl" finds PoCL); empty: the best.
  std::string platform = from_environment("GEMEL_PLATFORM");
  /// Index in the platform, "cpu" or "gpu"; empty: the best. "0.1": of the CPU device 0 the second of equal parts, of `threads` units each
  /// (0: of one).
  std::string device = from_environment("GEMEL_DEVICE");
  int threads = 0;                   // of a CPU device or a part of one; 0: all
  bool threads_are_a_share = false;  // of a machine that several ranks use: a device that cannot be divided is taken whole
  std::int64_t memory_limit = 0;     // bytes; 0: the least of device memory, the cgroup's limit and, where shared, what is free
  MemorySharers memory_sharers = {};
  GemmChoice gemm = GemmChoice::automatic;
  Profiling profiling = Profiling::off;
  std::int64_t cache_bytes = -1;     // of the last cache before main memory; -1: as the device says
  int simd_width = 0;                // float lanes that kernels are made for; 0: as many as the device has
  bool overlaps_sub_buffers = true;  // false: kernels take offsets, as on drivers on which sub-buffers must not overlap
  Ablation ablation = {};
  Denormals denormals = Denormals::keep;  // in kernels
};

/// Groups along the second and the third dimension that every driver takes: NVIDIA's refuses more.
inline constexpr std::int64_t kMostGroups = 65535;
/// Up to three dimensions of work-items. A local extent of 0 leaves it to the driver.
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

/// Whether it has no work-items.
inline bool is_empty(const Range& range) {
  return std::any_of(range.global.begin(), range.global.begin() + range.dimensions, [](std::int64_t extent) { return extent <= 0; });
}

/// int32 passes as `int`, int64 as `long`, float as `float`.
using Argument = std::variant<Region, std::int32_t, std::int64_t, float>;

class Kernel;  // one kernel of one program; lives as long as its device
class Recording;

/// What kernels compute on the elements of their output before they are done with them (kernels/epilogue.clh). Empty: nothing.
struct EpilogueCode {
  std::string_view text;                     // comes before the kernel's source
  std::span<const Argument> arguments = {};  // come after the kernel's own; not needed to choose a kernel
};

/// What the profiler is told of one piece of work on the queue; times in nanoseconds of the device's clock.
struct TimedWork {
  std::string name;
  std::int64_t flops = 0, bytes = 0;
  std::int64_t begin_ns = 0, end_ns = 0;
};

/// A read on its way to the host. Destroying it waits, so that its memory outlives the transfer.
class PendingRead {
 public:
  virtual ~PendingRead() = default;
  /// Waits, then gives the bytes.
  virtual std::span<const std::byte> get() = 0;
};

/// Both run in order, each by itself. Kernels, copies, fills, reads and writes are enqueued on the first; maps on the second.
enum class Queue { compute, transfer };

class Device {
 public:
  /// @throws DeviceError no platform; unknown platform or device (lists those found)
  static std::shared_ptr<Device> open(const DeviceOptions& options);
  /// Names, as DeviceOptions takes them, of the devices of the platform of the one that these options open which are of its kind.
  static std::vector<std::string> alike(const DeviceOptions& options);
  virtual ~Device() = default;

  virtual const DeviceProfile& profile() const = 0;
  virtual Allocator& memory() = 0;

  /// A kernel of an embedded source, built on first use: `kernel("softmax.cl", "softmax_rows", "-DTILE=16")`.
  /// @param preface  text that comes before the source
  virtual Kernel& kernel(std::string_view file, std::string_view name, std::string_view options = {}, std::string_view preface = {}) = 0;
  /// A kernel of generated source. `title` names the program, here and in messages; `source` is asked once for each title.
  virtual Kernel& generated_kernel(std::string_view title, const std::function<std::string()>& source, std::string_view name) = 0;

  /// Enqueues. An empty range (any global extent 0) does nothing.
  virtual void run(Kernel& kernel, const Range& range, std::span<const Argument> arguments) = 0;
  void run(Kernel& kernel, const Range& range, std::initializer_list<Argument> arguments) {
    run(kernel, range, std::span(arguments.begin(), arguments.size()));
  }
  void run(Kernel& kernel, const Range& range, std::vector<Argument> arguments, std::span<const Argument> more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    run(kernel, range, arguments);
  }
  /// Enqueues what was recorded on this device. @param operands  for which it fits (Recording::fits)
  virtual void replay(const Recording& recording, std::span<const Region> operands) = 0;
  virtual void copy(const Region& from, const Region& to) = 0;
  /// Fills with a repeated 1-, 2-, 4- or 8-byte pattern.
  virtual void fill(const Region& to, std::span<const std::byte> pattern) = 0;
  /// Copies the host bytes before it returns; the transfer itself may come later.
  virtual void write(const Region& to, std::span<const std::byte> from) = 0;
  /// Enqueues a transfer from memory that `from` keeps alive.
  virtual void write(const Region& to, std::shared_ptr<const std::vector<std::byte>> from) = 0;
  /// Has `make` fill in the bytes: in the device's own memory where the host shares it, after all that was enqueued before.
  virtual void write(const Region& to, const std::function<void(std::span<std::byte>)>& make) = 0;
  /// Waits.
  virtual void read(const Region& from, std::span<std::byte> to) = 0;
  virtual std::unique_ptr<PendingRead> read_later(const Region& from) = 0;
  virtual void finish() = 0;

  /// Happens when all that is enqueued on the queue so far is done.
  virtual Event mark(Queue queue) = 0;
  /// What is enqueued on the queue from now on starts after the event. The host does not wait, but an emulator may run a queue in the
  /// thread that marks it: then another thread has to complete a fence. @throws UsageError for an event of another device
  virtual void wait_for(Queue queue, const Event& event) = 0;
  /// Whoever is to complete it must not wait for the device's compute queue, nor allocate, which may wait for that. Mesa 22.3's
  /// rusticl may block a thread that enqueues behind it, so that there another thread has to complete it.
  virtual Fence make_fence() = 0;
  /// A view of the host's. Where the host shares the memory nothing is copied, and nothing waits for kernels that are not before `after`.
  /// @param after  when the device is done with the region  @throws UsageError for an event of another device
  virtual HostView map(const Region& region, Access access, const Event& after) = 0;

  /// Lets another library enqueue on this device's queue. @param enqueue  gets the cl_command_queue and a place for a cl_event
  virtual void native(const std::function<void(void* queue, void** event)>& enqueue, std::string_view name) = 0;

  /// Runs `enqueue`. With profiling, all that its thread enqueues in it bears this name, and the last of it, which does the work that the
  /// others prepare, is charged with the FLOPs and bytes. Several threads may charge at once.
  virtual void charge(std::string_view name, std::int64_t flops, std::int64_t bytes, const std::function<void()>& enqueue) = 0;
  enum class Timing { off, on };
  /// With sampled profiling: whether what is enqueued from now on is timed. Without effect otherwise.
  virtual void time_work(Timing timing) = 0;
  /// All timed work finished since the last call, in queue order. Waits for it. Work within a call of `charge` that is not over, and what
  /// follows it, comes with a later call.
  virtual std::vector<TimedWork> take_work() = 0;
  /// The same for what happens to be finished, without waiting.
  virtual std::vector<TimedWork> take_finished_work() = 0;
  /// Nanoseconds that the host's steady clock is ahead of the device's, to some microseconds. For a device whose work is timed.
  virtual std::int64_t clock_lead_ns() = 0;
};

}  // namespace gemel::opencl
