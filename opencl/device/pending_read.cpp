#include "opencl/device/pending_read.h"

#include <vector>

#include "engine/base/numbers.h"
#include "opencl/event_wait.h"
#include "opencl/memory/block.h"

namespace gemel::opencl {
namespace {

class ClPendingRead : public PendingRead {
 public:
  ClPendingRead(Queues& queues, const Region& from) : queues_(queues), bytes_(at(from.bytes)), last_(queues.last_work().name()) {
    if (bytes_.empty()) return;
    queues.last_work().check(clEnqueueReadBuffer(queues.get(Queue::compute), from.block->memory.get(), CL_FALSE, at(from.offset), bytes_.size(), bytes_.data(),
                                                 0, nullptr, event_.place()),
                             "clEnqueueReadBuffer", from.block->what);
  }
  ~ClPendingRead() override { wait(event_); }
  std::span<const std::byte> get() override {
    queues_.last_work().check_until(last_, wait(event_), "clWaitForEvents");
    queues_.check_fences();
    return bytes_;
  }

 private:
  Queues& queues_;
  std::vector<std::byte> bytes_;
  const char* last_;  // work before it
  EventHandle event_;
};

}  // namespace

std::unique_ptr<PendingRead> read_later(Queues& queues, const Region& from) {
  auto pending = std::make_unique<ClPendingRead>(queues, from);
  queues.last_work().check(clFlush(queues.get(Queue::compute)), "clFlush");
  return pending;
}

}  // namespace gemel::opencl
