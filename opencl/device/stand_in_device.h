// Private to opencl/ and tests: takes a device's place in a launch, to look at what it enqueues.
#pragma once
#include <fmt/format.h>

#include "engine/base/error.h"
#include "opencl/device/device.h"

namespace gemel::opencl {

/// Refuses what no launch does: it enqueues kernels, copies and fills, and waits for nothing.
class StandInDevice : public Device {
 public:
  Allocator& memory() override { refuse("memory"); }
  void replay(const Recording&, std::span<const Region>) override { refuse("replay"); }
  void write(const Region&, std::span<const std::byte>) override { refuse("write"); }
  void write(const Region&, std::shared_ptr<const std::vector<std::byte>>) override { refuse("write"); }
  void write(const Region&, const std::function<void(std::span<std::byte>)>&) override { refuse("write"); }
  void read(const Region&, std::span<std::byte>) override { refuse("read"); }
  std::unique_ptr<PendingRead> read_later(std::span<const Region>) override { refuse("read_later"); }
  void finish() override { refuse("finish"); }
  Event mark(Queue) override { refuse("mark"); }
  void wait_for(Queue, const Event&) override { refuse("wait_for"); }
  Fence make_fence() override { refuse("make_fence"); }
  HostView map(const Region&, Access, const Event&) override { refuse("map"); }
  void time_work(Timing) override { refuse("time_work"); }
  void charge(std::string_view, std::int64_t, std::int64_t, const std::function<void()>&) override { refuse("charge"); }
  std::vector<TimedWork> take_work() override { refuse("take_work"); }
  std::vector<TimedWork> take_finished_work() override { refuse("take_finished_work"); }
  std::int64_t clock_lead_ns() override { refuse("clock_lead_ns"); }

 private:
  [[noreturn]] static void refuse(const char* what) {
    throw InternalError(fmt::format("{}: a launch enqueues kernels, copies and fills, and waits for nothing", what));
  }
};

}  // namespace gemel::opencl
