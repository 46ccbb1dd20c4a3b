#include "opencl/device/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <unordered_map>

#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/base/resource_limits.h"
#include "opencl/clblast/clblast_parameters.h"
#include "opencl/device/host_views.h"
#include "opencl/device/kept_writes.h"
#include "opencl/device/last_work.h"
#include "opencl/device/matrix_units.h"
#include "opencl/device/pending_read.h"
#include "opencl/device/queues.h"
#include "opencl/device/recording.h"
#include "opencl/device/selection.h"
#include "opencl/device/staging.h"
#include "opencl/device/work_times.h"
#include "opencl/event_wait.h"
#include "opencl/memory/block.h"
#include "opencl/memory/memory_limit.h"
#include "opencl/pocl/driver_cache.h"
#include "opencl/program/build_ahead.h"
#include "opencl/program/build_lock.h"
#include "opencl/program/compilation_log.h"
#include "opencl/program/compiler_abort.h"
#include "opencl/program/kernel.h"
#include "opencl/program/offset_arguments.h"
#include "opencl/program/out_of_process_compilation.h"
#include "opencl/program/program_cache.h"

namespace gemel::opencl {

namespace {

class ClDevice : public Device {
 public:
  /// @param part  of the device's equal parts; none: as many threads as are wanted
  ClDevice(FoundDevice found, std::optional<int> part, const DeviceOptions& options)
      : profile_(std::move(found.profile)), device_(found.device), cache_(ProgramCache::folder_for(profile_), profile_) {
    if (const auto cache = DriverCache::of_process().folder(); !cache.empty() && profile_.is_pocl() && options.memory_sharers.of_host > 1)
      turns_.emplace(cache);
    if (OutOfProcessCompiler::is_asked_for() || OutOfProcessCompiler::is_needed(found.platform, profile_))
      apart_ = std::make_unique<OutOfProcessCompiler>(found.platform, profile_);
    if (options.gemm != GemmChoice::automatic) (options.gemm == GemmChoice::clblast ? profile_.preferences.wanted : profile_.preferences.unwanted) = "clblast";
    const Ablation& ablation = options.ablation;
    for (const auto& [op, variant] : ablation.variants) profile_.preferences.variants.insert({op, {variant}});
    profile_.preferences.precision = options.precision;
    settings_ = {options.denormals, options.profiling == Profiling::all, ablation.memory_plan, ablation.recorded_launches};
    processes_ = options.memory_sharers.of_host;
    timing_ = settings_.profiling;
    can_sample_ = options.profiling == Profiling::sampled;
    if (part)
      take_part(*part, std::max(options.threads, 1));
    else if (options.threads > 0 && profile_.is_cpu() && options.threads != profile_.compute_units && (divides() || !options.threads_are_a_share))
      take_part(0, options.threads);
    if (options.cache_bytes >= 0) profile_.cache_bytes = options.cache_bytes;
    if (options.simd_width > 0) profile_.simd_width = options.simd_width;
    if (!options.overlaps_sub_buffers) profile_.overlaps_sub_buffers = false;
    auto tuning = std::make_shared<TuningTable>(ablation.tuning ? read_tuning(profile_) : TuningTable());
    use_clblast_parameters(device_, *tuning, profile_);
    profile_.preferences.tuning = std::move(tuning);
    cl_int code = CL_SUCCESS;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(found.platform), 0};
    context_->handle = ContextHandle(clCreateContext(properties, 1, &device_, nullptr, nullptr, &code));
    check(code, "clCreateContext", profile_.name);
    queue_ = QueueHandle(clCreateCommandQueue(context(), device_, options.profiling == Profiling::off ? 0 : CL_QUEUE_PROFILING_ENABLE, &code));
    check(code, "clCreateCommandQueue", profile_.name);
    queues_.emplace(context_, device_, queue_.get(), last_work_);
    views_.emplace(*this, *queues_, turns_ ? &*turns_ : nullptr);
    if (profile_.is_pocl()) DriverCache::of_process().make_room();  // the allocator asks a kernel for addresses of host memory
    const bool is_limited = options.memory_limit > 0;
    allocator_ = make_allocator(context_, queue_.get(), profile_,
                                {is_limited ? options.memory_limit : default_memory_limit(profile_, options.memory_sharers), is_limited});
    last_work_->begin(profile_, allocator_);
    if (profile_.stages_transfers) {
      staging_ = {std::make_shared<Staging>(*queues_, *allocator_), std::make_shared<Staging>(*queues_, *allocator_)};
      allocator_->before_refusing([uploads = staging_.uploads.get()] { uploads->give_up(); });
    }
  }
  ~ClDevice() override {
    allocator_->before_refusing({});  // it may outlive the device
    opencl::finish(queue_.get());
    last_work_->end();
  }

  /// Before anything else computes.
  void try_matrix_units() { profile_.matrix_units = usable_units(*this); }

  const DeviceProfile& profile() const override { return profile_; }
  const DeviceSettings& settings() const override { return settings_; }
  Allocator& memory() override { return *allocator_; }

  Kernel& kernel(std::string_view file, std::string_view name, std::string_view options, std::string_view preface) override {
    return find(file, {options, preface}, name, [&] { return complete(with_includes(preface) + embedded_source(file)); });
  }
  Kernel& generated_kernel(std::string_view title, const std::function<std::string()>& source, std::string_view name) override {
    return find(title, {}, name, [&] { return complete(with_includes(source())); });
  }
  void build(std::span<const ProgramRequest> wanted) override {
    if (!profile_.builds_ahead() || apart_ || turns_) return;
    const std::lock_guard lock(mutex_);
    std::vector<std::string> keys;
    std::vector<ProgramText> texts;
    for (const ProgramRequest& r : wanted) {
      std::string key = key_of(r.title, {r.options, r.preface});
      if (const auto it = programs_.find(key); (it != programs_.end() && it->second.handle) || std::ranges::find(keys, key) != keys.end()) continue;
      keys.push_back(std::move(key));
      texts.push_back({r.title, complete(with_includes(r.preface) + (r.generated.empty() ? embedded_source(r.title) : with_includes(r.generated))),
                       with_denormals(r.options), profile_.parses_builtins});
    }
    const int threads = std::max(allowed_cores().count() / std::max(processes_, 1), 1);
    std::vector<ProgramHandle> built = build_side_by_side({context(), device_, profile_.name, at(threads)}, cache_, texts);
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (built[i]) programs_[keys[i]].handle = std::move(built[i]);
  }
  void run(Kernel& kernel, const Range& range, std::span<const Argument> arguments) override {
    if (is_empty(range)) return;  // PoCL divides by zero
    const bool builds = is_new(kernel, range);
    const BuildTurns::OfQueue turn = turn_if(builds);
    const CompilationWatch watch(builds ? 1 : 0, queue_.get());
    if (builds && apart_) compile_apart(std::array{Compiled{&kernel, range, {arguments.begin(), arguments.end()}}});
    const std::lock_guard lock(mutex_);  // a kernel's arguments are its state until it is enqueued
    cl_uint next = 0;
    for (const Argument& argument : arguments) std::visit([&](const auto& value) { set(kernel, next, value); }, argument);
    enqueue(kernel, range);
  }
  void replay(const Recording& recording, std::span<const Region> operands) override {
    std::vector<Compiled> fresh;  // that the driver may have to compile
    for (const Recording::Entry& entry : recording.entries())
      if (const auto* r = profile_.is_pocl() ? std::get_if<Recording::Run>(&entry) : nullptr)
        if (is_new(*r->kernel, r->range)) fresh.push_back({r->kernel, r->range, apart_ ? recorded_arguments(*r, operands) : std::vector<Argument>()});
    const BuildTurns::OfQueue turn = turn_if(!fresh.empty());
    const CompilationWatch watch(fresh.size(), queue_.get());
    if (apart_) compile_apart(fresh);
    const std::lock_guard lock(mutex_);
    for (const Recording::Entry& entry : recording.entries()) std::visit(Again{*this, operands}, entry);
  }

  void copy(const Region& from, const Region& to) override {
    const std::lock_guard lock(mutex_);
    enqueue_copy(from, to);
  }
  void fill(const Region& to, std::span<const std::byte> pattern) override {
    const std::lock_guard lock(mutex_);
    enqueue_fill(to, pattern);
  }
  void write(const Region& to, std::span<const std::byte> from) override {
    write_kept(to, std::make_shared<const std::vector<std::byte>>(from.begin(), from.end()));
  }
  void write(const Region& to, std::shared_ptr<const std::vector<std::byte>> from) override {
    require_room("write", std::ssize(*from), to.bytes);
    if (!staging_.uploads || !upload(*queues_, *staging_.uploads, to, *from)) write_kept(to, std::move(from));
  }
  void write(const Region& to, const std::function<void(std::span<std::byte>)>& make) override {
    if (to.bytes == 0) return;
    if (!profile_.shares_host_memory) {
      auto bytes = std::make_shared<std::vector<std::byte>>(at(to.bytes));
      make(*bytes);
      return write_kept(to, std::move(bytes));
    }
    cl_int code = CL_SUCCESS;
    EventHandle ready;
    void* mapped = clEnqueueMapBuffer(queue_.get(), to.block->memory.get(), CL_FALSE, CL_MAP_WRITE_INVALIDATE_REGION, at(to.offset), at(to.bytes), 0, nullptr,
                                      ready.place(), &code);
    last_work_->check(code, "clEnqueueMapBuffer", to.block->what);
    last_work_->check(wait(ready), "clWaitForEvents", to.block->what);
    const auto unmap = [&] { return clEnqueueUnmapMemObject(queue_.get(), to.block->memory.get(), mapped, 0, nullptr, nullptr); };
    try {
      make({static_cast<std::byte*>(mapped), at(to.bytes)});
    } catch (...) {
      unmap();
      throw;
    }
    last_work_->check(unmap(), "clEnqueueUnmapMemObject", to.block->what);
  }
  void read(const Region& from, std::span<std::byte> to) override {
    require_room("read", std::ssize(to), from.bytes);
    if (to.empty()) return;
    EventHandle done;
    const char* const last = last_work_->name();
    last_work_->check(clEnqueueReadBuffer(queue_.get(), from.block->memory.get(), CL_FALSE, at(from.offset), to.size(), to.data(), 0, nullptr, done.place()),
                      "clEnqueueReadBuffer", from.block->what);
    const cl_int code = wait(done);
    staging_.check(code);
    last_work_->check_until(last, code, "clWaitForEvents", from.block->what);
    queues_->check_fences();
    const std::lock_guard lock(mutex_);
    writes_.forget_finished();
  }
  std::unique_ptr<PendingRead> read_later(std::span<const Region> from) override { return opencl::read_later(*queues_, staging_, from); }
  void finish() override {
    const cl_int code = opencl::finish(queue_.get());
    staging_.check(code);
    last_work_->check(code, "clWaitForEvents");
    const std::lock_guard lock(mutex_);
    writes_.forget_finished();
  }
  Event mark(Queue queue) override { return queues_->mark(queue); }
  void wait_for(Queue queue, const Event& event) override { queues_->wait_for(queue, event); }
  Fence make_fence() override { return queues_->make_fence(); }
  HostView map(const Region& region, Access access, const Event& after) override { return views_->map(region, access, after); }

  void charge(std::string_view name, std::int64_t flops, std::int64_t bytes, const std::function<void()>& enqueue) override {
    times_.charge(name, flops, bytes, enqueue);
  }
  void time_work(Timing timing) override {
    const std::lock_guard lock(mutex_);
    if (can_sample_) timing_ = timing == Timing::on;
  }
  std::vector<TimedWork> take_work() override {
    finish();
    times_.wait();  // some drivers mark an event a moment after the queue has drained
    return times_.take_finished();
  }
  std::vector<TimedWork> take_finished_work() override { return times_.take_finished(); }
  std::int64_t clock_lead_ns() override {
    const std::lock_guard lock(mutex_);
    EventHandle marker;
    check(clEnqueueMarkerWithWaitList(queue_.get(), 0, nullptr, marker.place()), "clEnqueueMarkerWithWaitList");
    check(wait(marker), "clWaitForEvents");
    const std::int64_t now = steady_ns();
    cl_ulong end = 0;
    check(clGetEventProfilingInfo(marker.get(), CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr), "clGetEventProfilingInfo");
    return now - static_cast<std::int64_t>(end);
  }
  void native(const std::function<void(void* queue, void** event)>& enqueue, std::string_view name) override {
    const std::lock_guard lock(mutex_);
    EventHandle before, last;
    // The event is of the last kernel only, so a marker tells when the first could begin.
    if (timing_ && name != kNoWork) check(clEnqueueMarkerWithWaitList(queue_.get(), 0, nullptr, before.place()), "clEnqueueMarkerWithWaitList");
    enqueue(queue_.get(), reinterpret_cast<void**>(last.place()));
    if (name != kNoWork) last_work_->note(natives_.emplace(name).first->c_str());
    if (!timing_ || !last) return;
    Timed& timed = times_.next(std::string(name));
    timed.before = std::move(before);
    timed.event = std::move(last);
  }

 private:
  static void require_room(const char* what, std::int64_t bytes, std::int64_t room) {
    if (bytes > room) throw InternalError(fmt::format("{}: {} bytes do not fit in a region of {}", what, bytes, room));
  }

  cl_context context() const { return context_->handle.get(); }

  void write_kept(const Region& to, std::shared_ptr<const std::vector<std::byte>> from) {
    require_room("write", std::ssize(*from), to.bytes);
    if (from->empty()) return;
    const std::lock_guard lock(mutex_);
    writes_.enqueue(queue_.get(), to, std::move(from));
  }

  BuildTurns::OfQueue turn_if(bool builds) {
    if (builds) DriverCache::of_process().make_room();
    return builds && turns_ ? turns_->take(queue_.get()) : BuildTurns::OfQueue();
  }
  bool is_new(Kernel& kernel, const Range& range) {
    if (!profile_.is_pocl()) return false;
    const std::lock_guard lock(mutex_);
    return is_new_to_driver(kernel, range);
  }

  /// What the driver is about to compile, for these arguments.
  struct Compiled {
    Kernel* kernel;
    Range range;
    std::vector<Argument> arguments;
  };
  /// @throws CompilerAbort where one of them cannot be; then none has been
  void compile_apart(std::span<const Compiled> fresh) {
    try {
      for (const Compiled& c : fresh)
        apart_->compile({*c.kernel->program, c.kernel->name, in_groups_of(c.range, c.kernel->most_items), c.arguments, !profile_.overlaps_sub_buffers});
    } catch (const CompilerAbort&) {
      const std::lock_guard lock(mutex_);
      for (const Compiled& c : fresh) c.kernel->launched.erase(as_driver_meets(c.range));
      throw;
    }
  }
  static std::vector<Argument> recorded_arguments(const Recording::Run& run, std::span<const Region> operands) {
    std::vector<Argument> out;
    for (const Recording::Argument& argument : run.arguments)
      std::visit(
          [&]<class T>(const T& value) {
            if constexpr (std::is_same_v<T, Recording::Place>)
              out.emplace_back(value.in(operands));
            else
              out.emplace_back(value);
          },
          argument);
    return out;
  }

  bool divides() const { return profile_.is_cpu() && device_info<cl_uint>(device_, CL_DEVICE_PARTITION_MAX_SUB_DEVICES) > 0; }
  /// Takes one of the equal parts of a CPU device.
  void take_part(int index, int threads) {
    if (threads > profile_.compute_units)
      throw UsageError(
          fmt::format("device: {} threads are asked for, {} runs {}; accepted: 1..{}", threads, profile_.name, profile_.compute_units, profile_.compute_units));
    if (!divides())
      throw DeviceError(
          fmt::format("device: a part of {} threads is asked for, {} cannot be divided; accepted: all {}", threads, profile_.name, profile_.compute_units));
    if (const int parts = count_parts(device_, threads); index >= parts)
      throw UsageError(fmt::format("device: part {} is asked for, {} has {} of {} threads; accepted: 0..{}", index, profile_.name, parts, threads, parts - 1));
    context_->part = DevicePart(device_, threads, index);
    device_ = context_->part.get();
    profile_.compute_units = threads;
    profile_.cache_bytes = std::min(profile_.cache_bytes, threads * kCacheOfUnit);
  }

  /// Where the driver is to put the event of the next work: nowhere unless work is timed.
  cl_event* event_for(const std::string& name) { return timing_ ? times_.next(name).event.place() : nullptr; }

  /// Enqueues what was recorded, with these operands.
  struct Again {
    ClDevice& device;
    std::span<const Region> operands;
    Region in_operands(const Recording::Place& place) const { return place.in(operands); }
    template <class T>
    T in_operands(T number) const {
      return number;
    }
    void operator()(const Recording::Run& r) const {
      cl_uint next = 0;
      for (const Recording::Argument& argument : r.arguments) std::visit([&](const auto& value) { device.set(*r.kernel, next, in_operands(value)); }, argument);
      device.enqueue(*r.kernel, r.range);
    }
    void operator()(const Recording::Copy& c) const { device.enqueue_copy(c.from.in(operands), c.to.in(operands)); }
    void operator()(const Recording::Fill& f) const { device.enqueue_fill(f.to.in(operands), f.pattern); }
  };

  void enqueue(const Kernel& kernel, const Range& asked) {
    const Range range = in_groups_of(asked, kernel.most_items);
    std::size_t global[3] = {1, 1, 1}, local[3] = {1, 1, 1};
    for (std::size_t d = 0; d < static_cast<std::size_t>(range.dimensions); ++d) {
      global[d] = static_cast<std::size_t>(range.global[d]);
      local[d] = static_cast<std::size_t>(range.local[d]);
      if (range.local[0] > 0 && (local[d] == 0 || global[d] % local[d] != 0))
        throw InternalError(fmt::format("{}: {} items do not divide into groups of {}", kernel.name, global[d], local[d]));
      if (d > 0 && range.local[0] > 0 && global[d] / local[d] > at(kMostGroups))
        throw InternalError(fmt::format("{}: {} groups along dimension {}; some drivers take {}", kernel.name, global[d] / local[d], d, kMostGroups));
    }
    cl_event* const event = event_for(kernel.name);
    const auto enqueued = [&] {
      return clEnqueueNDRangeKernel(queue_.get(), kernel.handle.get(), static_cast<cl_uint>(range.dimensions), nullptr, global,
                                    range.local[0] > 0 ? local : nullptr, 0, nullptr, event);
    };
    cl_int code = enqueued();
    // Of a driver that takes memory only when it is used: what is freed may do. Not behind a fence, which may wait for a thread that waits for this device.
    if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE && !queues_->wait_for_host()) {
      allocator_->trim();
      code = enqueued();
    }
    if (code != CL_SUCCESS)
      last_work_->check(code, "clEnqueueNDRangeKernel", fmt::format("{} in groups of {} x {} x {}", kernel.name, local[0], local[1], local[2]));
    last_work_->note(kernel.name.c_str());
    // A driver may keep what is enqueued until a flush: a card would begin a step when the host has enqueued all of it.
    constexpr unsigned kLaunchesOfFlush = 16;
    if (profile_.runs_items_in_lanes() && ++launches_ % kLaunchesOfFlush == 0) last_work_->check(clFlush(queue_.get()), "clFlush");
  }
  void enqueue_copy(const Region& from, const Region& to) {
    require_room("copy", from.bytes, to.bytes);
    if (from.bytes == 0) return;
    last_work_->check(clEnqueueCopyBuffer(queue_.get(), from.block->memory.get(), to.block->memory.get(), at(from.offset), at(to.offset), at(from.bytes), 0,
                                          nullptr, event_for("copy")),
                      "clEnqueueCopyBuffer");
    last_work_->note("a copy");
  }
  void enqueue_fill(const Region& to, std::span<const std::byte> pattern) {
    if (to.bytes % std::ssize(pattern) != 0) throw InternalError(fmt::format("fill: {} bytes are no multiple of a pattern of {}", to.bytes, pattern.size()));
    if (to.bytes == 0) return;
    if (profile_.is_emulator) return write_repeated(to, pattern);
    last_work_->check(
        clEnqueueFillBuffer(queue_.get(), to.block->memory.get(), pattern.data(), pattern.size(), at(to.offset), at(to.bytes), 0, nullptr, event_for("fill")),
        "clEnqueueFillBuffer");
    last_work_->note("a fill");
  }

  /// oclgrind counts what a fill has written as never written.
  void write_repeated(const Region& to, std::span<const std::byte> pattern) {
    auto bytes = std::make_shared<std::vector<std::byte>>(at(to.bytes));
    for (std::size_t i = 0; i < bytes->size(); ++i) (*bytes)[i] = pattern[i % pattern.size()];
    const EventHandle& event = writes_.enqueue(queue_.get(), to, std::move(bytes));
    if (!timing_) return;
    check(clRetainEvent(event.get()), "clRetainEvent");
    times_.next("fill").event = EventHandle(event.get());
  }

  /// @param next  the kernel's argument; afterwards the one behind
  void set(const Kernel& kernel, cl_uint& next, const Region& region) {
    if (profile_.overlaps_sub_buffers) return set(kernel, next, memory_of(region));
    set(kernel, next, region.block ? region.block->memory.get() : nullptr);
    set(kernel, next, static_cast<cl_ulong>(region.offset));
  }
  template <class T>
  void set(const Kernel& kernel, cl_uint& next, const T& value) {
    const cl_int code = clSetKernelArg(kernel.handle.get(), next, sizeof value, &value);
    if (code != CL_SUCCESS) check(code, "clSetKernelArg", fmt::format("argument {} of {}", next, kernel.name));
    ++next;
  }

  std::string complete(const std::string& source) const {
    return macros_for(profile_) + (profile_.overlaps_sub_buffers ? source : with_offset_arguments(source));
  }

  struct Program {
    ProgramHandle handle;
    ProgramText text;  // where kernels are compiled apart
  };
  /// On CPUs a driver switches the processor before each kernel of a program that is built so.
  std::string with_denormals(std::string_view options) const {
    return std::string(options) + (settings_.denormals == Denormals::flush ? " -cl-denorms-are-zero" : "");
  }

  /// What tells programs of one title apart.
  struct Build {
    std::string_view options, preface;
  };

  static std::string key_of(std::string_view title, const Build& build) { return fmt::format("{}\n{}\n{}\n", title, build.options, build.preface); }

  template <class Source>
  Kernel& find(std::string_view title, const Build& build, std::string_view name, const Source& source) {
    const std::lock_guard lock(mutex_);
    key_.assign(title).append("\n").append(build.options).append("\n").append(build.preface).append("\n");
    const std::size_t program_key = key_.size();
    key_.append(name);
    if (const auto it = kernels_.find(key_); it != kernels_.end()) return it->second;
    const std::string program_name = key_.substr(0, program_key);
    Program& program = programs_[program_name];
    if (!program.handle && profile_.is_pocl()) DriverCache::of_process().make_room();
    const BuildTurns::Turn turn = !program.handle && turns_ ? turns_->take() : BuildTurns::Turn();
    if (!program.handle) {
      ProgramText text{std::string(title), source(), with_denormals(build.options), profile_.parses_builtins};
      if (apart_) apart_->compile({text});
      program.handle = build_program(context(), device_, cache_, text);
      if (apart_) program.text = std::move(text);
    }
    cl_int code = CL_SUCCESS;
    Kernel made{KernelHandle(clCreateKernel(program.handle.get(), std::string(name).c_str(), &code)), std::string(name)};
    check(code, "clCreateKernel", fmt::format("{} of {}", name, title));
    made.most_items = most_items_of(made.handle.get(), device_, profile_);
    made.program = &program.text;
    return kernels_.emplace(key_, std::move(made)).first->second;
  }

  std::mutex mutex_;  // of all that follows, so that several threads may enqueue
  DeviceProfile profile_;
  DeviceSettings settings_;
  cl_device_id device_;
  std::shared_ptr<Context> context_ = std::make_shared<Context>();
  QueueHandle queue_;
  std::optional<Queues> queues_;
  std::optional<HostViews> views_;
  std::shared_ptr<Allocator> allocator_;
  Stagings staging_;
  ProgramCache cache_;
  std::optional<BuildTurns> turns_;              // where other processes build the same
  std::unique_ptr<OutOfProcessCompiler> apart_;  // where the driver's compiler may end the process
  std::unordered_map<std::string, Program> programs_;
  std::unordered_map<std::string, Kernel> kernels_;
  std::string key_;
  std::shared_ptr<LastWork> last_work_ = std::make_shared<LastWork>();
  KeptWrites writes_{*last_work_};
  bool timing_ = false, can_sample_ = false;
  unsigned launches_ = 0;
  std::set<std::string, std::less<>> natives_;  // names that last_work_ has met
  int processes_ = 1;                           // that share the host's cores
  WorkTimes times_{mutex_, *last_work_};
};

}  // namespace

std::shared_ptr<Device> Device::open(const DeviceOptions& options) {
  const WantedDevice wanted = wanted_device(options.device);
  prepare_environment(wanted.part ? 0 : options.threads);
  tell_clblast(options.denormals);
  auto device = std::make_shared<ClDevice>(select_device(options.platform, wanted.device), wanted.part, options);
  device->try_matrix_units();
  return device;
}

std::vector<std::string> Device::alike(const DeviceOptions& options) {
  prepare_environment(options.threads);
  return devices_alike(select_device(options.platform, wanted_device(options.device).device));
}

}  // namespace gemel::opencl
