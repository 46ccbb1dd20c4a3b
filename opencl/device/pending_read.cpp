#include "opencl/device/pending_read.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/numbers.h"
#include "opencl/event_wait.h"
#include "opencl/memory/block.h"

namespace gemel::opencl {
namespace {

constexpr std::int64_t kLeastSlot = 64 << 10, kMostStaged = 1 << 20;  // bytes; results of a step are few

class ClPendingRead : public PendingRead {
 public:
  ClPendingRead(Queues& queues, const Stagings& staging) : queues_(queues), staging_(staging), last_(queues.last_work().name()) {}

 protected:
  Queues& queues() const { return queues_; }
  Staging& slots() const { return *staging_.results; }
  void wait_for(const EventHandle& event) const {
    const cl_int code = wait(event);
    staging_.check(code);
    queues_.last_work().check_until(last_, code, "clWaitForEvents");
    queues_.check_fences();
  }

 private:
  Queues& queues_;
  Stagings staging_;
  const char* last_;  // work before it
};

/// A transfer for each region.
class ReadByRegion : public ClPendingRead {
 public:
  ReadByRegion(Queues& queues, const Stagings& staging, std::int64_t bytes) : ClPendingRead(queues, staging), bytes_(at(bytes)) {}
  ~ReadByRegion() override {
    for (const EventHandle& event : events_) wait(event);
  }
  void enqueue(std::span<const Region> from) {
    std::byte* to = bytes_.data();
    for (const Region& region : from) {
      if (region.bytes == 0) continue;
      queues().last_work().check(clEnqueueReadBuffer(queues().get(Queue::compute), region.block->memory.get(), CL_FALSE, at(region.offset), at(region.bytes),
                                                     to, 0, nullptr, events_.emplace_back().place()),
                                 "clEnqueueReadBuffer", region.block->what);
      to += region.bytes;
    }
  }
  std::span<const std::byte> get() override {
    for (const EventHandle& event : events_) wait_for(event);
    return bytes_;
  }

 private:
  std::vector<std::byte> bytes_;
  std::vector<EventHandle> events_;
};

/// One transfer to pinned memory, of what the device has put together.
class StagedRead : public ClPendingRead {
 public:
  StagedRead(Queues& queues, const Stagings& staging, std::unique_ptr<StagingSlot> slot) : ClPendingRead(queues, staging), slot_(std::move(slot)) {}
  ~StagedRead() override {
    slot_->wait();
    slots().give_back(std::move(slot_));
  }
  void enqueue(std::span<const Region> from) {
    const LastWork& work = queues().last_work();
    const cl_command_queue queue = queues().get(Queue::compute);
    for (const Region& region : from) {
      if (region.bytes == 0) continue;
      work.check(clEnqueueCopyBuffer(queue, region.block->memory.get(), slot_->device(), at(region.offset), bytes_, at(region.bytes), 0, nullptr, nullptr),
                 "clEnqueueCopyBuffer", region.block->what);
      bytes_ += at(region.bytes);
    }
    work.check(clEnqueueReadBuffer(queue, slot_->device(), CL_FALSE, 0, bytes_, slot_->host(), 0, nullptr, slot_->in_use_by(nullptr)), "clEnqueueReadBuffer",
               "results of a step");
  }
  std::span<const std::byte> get() override {
    wait_for(slot_->last_use());
    return {slot_->host(), bytes_};
  }

 private:
  std::unique_ptr<StagingSlot> slot_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<PendingRead> read_later(Queues& queues, const Stagings& staging, std::span<const Region> from) {
  std::int64_t bytes = 0;
  for (const Region& region : from) bytes += region.bytes;
  const auto enqueued = [&](auto pending) -> std::unique_ptr<PendingRead> {
    pending->enqueue(from);
    queues.last_work().check(clFlush(queues.get(Queue::compute)), "clFlush");
    return pending;
  };
  if (staging.results && bytes > 0 && bytes <= kMostStaged)
    if (auto slot = staging.results->take(std::max(bytes, kLeastSlot))) return enqueued(std::make_unique<StagedRead>(queues, staging, std::move(slot)));
  return enqueued(std::make_unique<ReadByRegion>(queues, staging, bytes));
}

}  // namespace gemel::opencl
