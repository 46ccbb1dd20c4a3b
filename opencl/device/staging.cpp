#include "opencl/device/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "opencl/event_wait.h"
#include "opencl/memory/block.h"

namespace gemel::opencl {
namespace {

// While one is filled, those of the steps that are enqueued are read; micro-batches have a few more on their way.
constexpr int kMostSlots = 4;

/// Negative where the work has failed.
cl_int status_of(const EventHandle& event) {
  cl_int status = CL_COMPLETE;
  if (event) check(clGetEventInfo(event.get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr), "clGetEventInfo");
  return status;
}

}  // namespace

StagingSlot::StagingSlot(Queues& queues, Allocator& memory, std::int64_t bytes) : device_(memory.allocate(bytes, "staging memory")) {
  const cl_command_queue transfer = queues.get(Queue::transfer);
  cl_int code = CL_SUCCESS;
  pinned_ = MemoryHandle(clCreateBuffer(queues.context(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, at(bytes), nullptr, &code));
  opencl::check(code, "clCreateBuffer", "pinned host memory");
  void* host = clEnqueueMapBuffer(transfer, pinned_.get(), CL_FALSE, CL_MAP_READ | CL_MAP_WRITE, 0, at(bytes), 0, nullptr, in_use_by(nullptr), &code);
  queues.last_work().check_on(Queue::transfer, code, "clEnqueueMapBuffer", "pinned host memory");
  host_ = static_cast<std::byte*>(host);
  opencl::check(clRetainCommandQueue(transfer), "clRetainCommandQueue");
  transfer_ = QueueHandle(transfer);
  queues.last_work().check_on(Queue::transfer, clFlush(transfer), "clFlush");
  // The device memory may be a released block, which work that is enqueued still uses.
  queues.last_work().check(clEnqueueMarkerWithWaitList(queues.get(Queue::compute), 0, nullptr, in_use_by(nullptr)), "clEnqueueMarkerWithWaitList");
}

StagingSlot::~StagingSlot() {
  wait();
  if (transfer_) clEnqueueUnmapMemObject(transfer_.get(), pinned_.get(), host_, 0, nullptr, nullptr);
}

cl_mem StagingSlot::device() const { return device_.block()->memory.get(); }

cl_event* StagingSlot::in_use_by(const char* name) { return uses_.emplace_back(Use{name, {}}).event.place(); }

void StagingSlot::wait() const {
  for (const Use& use : uses_) opencl::wait(use.event);
}

bool StagingSlot::is_free() const {
  return std::ranges::all_of(uses_, [](const Use& use) { return status_of(use.event) <= CL_COMPLETE; });
}

bool StagingSlot::Use::has_failed() const {
  const cl_int status = name ? status_of(event) : CL_COMPLETE;
  return status < 0 && status != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
}

bool StagingSlot::has_failed() const { return std::ranges::any_of(uses_, &Use::has_failed); }

void StagingSlot::check(const LastWork& last) {
  for (Use& use : uses_)
    if (use.has_failed()) last.check_of(std::exchange(use.name, nullptr), status_of(use.event), "clEnqueueWriteBuffer");
}

Staging::Staging(Queues& queues, Allocator& memory) : queues_(queues), memory_(memory) { idle_.reserve(kMostSlots); }

std::unique_ptr<StagingSlot> Staging::take(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto taken = [&](auto slot) {
    (*slot)->check(queues_.last_work());
    std::unique_ptr<StagingSlot> out = std::move(*slot);
    idle_.erase(slot);
    return out;
  };
  const auto fits = std::ranges::find_if(idle_, [&](const auto& slot) { return slot->bytes() >= bytes && slot->is_free(); });
  if (fits != idle_.end()) {
    std::unique_ptr<StagingSlot> slot = taken(fits);
    slot->begin();
    return slot;
  }
  if (is_refused_ || !has_room(bytes)) return nullptr;
  if (slots_ == kMostSlots) {  // one that is too small makes room
    const auto small = std::ranges::find_if(idle_, [&](const auto& slot) { return slot->bytes() < bytes && slot->is_free(); });
    if (small == idle_.end()) return nullptr;
    taken(small);
    --slots_;
  }
  make(bytes);
  return nullptr;
}

/// So that nothing else gives way to it. A block may be larger than what is asked for, but less than twice as large.
bool Staging::has_room(std::int64_t bytes) const {
  const MemoryStatistics now = memory_.statistics();
  return now.in_use + now.cached + 2 * bytes <= now.limit;
}

void Staging::make(std::int64_t bytes) {
  try {
    idle_.push_back(std::make_unique<StagingSlot>(queues_, memory_, bytes));
    ++slots_;
  } catch (const DeviceError&) {  // a driver that has none of it; one that is lost says so at its next call
    is_refused_ = true;
  }
}

void Staging::give_back(std::unique_ptr<StagingSlot> slot) noexcept {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(slot));  // there is room for all
}

void Staging::give_up() {
  std::vector<std::unique_ptr<StagingSlot>> gone;  // destroyed without the lock
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;  // a thread that makes one asks for memory, or it is in use
  for (auto& slot : idle_)
    if (slot->is_free() && !slot->has_failed()) gone.push_back(std::move(slot));
  std::erase(idle_, nullptr);
  slots_ -= static_cast<int>(gone.size());
  is_refused_ = true;
}

void Staging::check() {
  const std::lock_guard lock(mutex_);
  for (const auto& slot : idle_) slot->check(queues_.last_work());
}

bool upload(Queues& queues, Staging& staging, const Region& to, std::span<const std::byte> from) {
  if (std::ssize(from) < kLeastUpload) return false;
  std::unique_ptr<StagingSlot> slot = staging.take(std::ssize(from));
  if (!slot) return false;
  const std::shared_ptr<void> back(&staging, [&](void*) { staging.give_back(std::move(slot)); });
  std::memcpy(slot->host(), from.data(), from.size());
  LastWork& work = queues.last_work();
  const cl_command_queue transfer = queues.get(Queue::transfer);
  constexpr const char* kUpload = "an upload";
  work.check_on(Queue::transfer, clEnqueueWriteBuffer(transfer, slot->device(), CL_FALSE, 0, from.size(), slot->host(), 0, nullptr, slot->in_use_by(kUpload)),
                "clEnqueueWriteBuffer", to.block->what);
  work.note(kUpload, Queue::transfer);
  const cl_event written = slot->last_use().get();
  work.check_on(Queue::transfer, clFlush(transfer), "clFlush");
  // The memory that it is meant for may still be in use by what the compute queue has to do. Not noted as its last work: the kernel before tells more.
  work.check(clEnqueueCopyBuffer(queues.get(Queue::compute), slot->device(), to.block->memory.get(), 0, at(to.offset), from.size(), 1, &written,
                                 slot->in_use_by(nullptr)),
             "clEnqueueCopyBuffer", to.block->what);
  return true;
}

}  // namespace gemel::opencl
