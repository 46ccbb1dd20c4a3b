// Events, fences and the two queues: what waits for what, and that the host does not.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "tests/support/device/shared_pages.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"

namespace gemel::opencl {
namespace {

using testing::message_of;
using Ints = std::vector<std::int32_t>;

constexpr std::size_t kCount = 4096;

/// Oclgrind runs a queue in the thread that marks or reads it.
bool runs_in_the_callers_thread(Device& device) { return device.profile().platform == "Oclgrind"; }

Buffer buffer_of(Device& device, std::int32_t number) {
  Buffer made = device.memory().allocate(kCount * sizeof number, "test data");
  device.fill(whole(made), std::as_bytes(std::span(&number, 1)));
  return made;
}

Ints read(Device& device, const Buffer& buffer) {
  Ints out(kCount);
  device.read(whole(buffer), std::as_writable_bytes(std::span(out)));
  return out;
}

/// Work of another device, after which one that nothing holds back would have done its own.
void give_time() {
  const auto other = Device::open({});
  for (int round = 0; round < 20; ++round) read(*other, buffer_of(*other, round));
}

/// Whether it happens, or does nothing for too long.
bool happens(const Event& event) {
  const auto waiter = std::async(std::launch::async, [&] { event.wait(); });
  return waiter.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
}

TEST(DeviceEvents, an_empty_event_has_happened) {
  EXPECT_TRUE(Event().done());
  Event().wait();
  testing::test_device().wait_for(Queue::compute, {});
}

TEST(DeviceEvents, a_read_is_complete_while_another_thread_flushes_the_queue) {
  const auto device = Device::open({});
  if (runs_in_the_callers_thread(*device)) GTEST_SKIP() << "it has one thread";
  std::atomic<bool> ends = false;
  const auto flushes = std::async(std::launch::async, [&] {
    for (int round = 1; !ends; ++round)
      if (const Event marked = device->mark(Queue::compute); round % 4 == 0) marked.wait();
  });
  const std::shared_ptr<void> end(nullptr, [&](void*) { ends = true; });
  const Buffer made = buffer_of(*device, 0);
  const Region first{whole(made).block, 0, sizeof(std::int32_t)};
  for (std::int32_t number = 1; number <= 5000; ++number) {
    std::int32_t seen = 0;
    device->fill(first, std::as_bytes(std::span(&number, 1)));
    device->read(first, std::as_writable_bytes(std::span(&seen, 1)));
    ASSERT_EQ(seen, number);
  }
}

TEST(DeviceEvents, a_mark_happens_when_what_was_enqueued_before_it_is_done) {
  const auto device = Device::open({});
  if (runs_in_the_callers_thread(*device)) GTEST_SKIP() << "it would wait in `mark`";
  for (const Queue queue : {Queue::compute, Queue::transfer}) {
    Fence fence = device->make_fence();
    device->wait_for(queue, fence.event());
    const Event marked = device->mark(queue), copy_of_it = marked;
    give_time();
    EXPECT_FALSE(marked.done());
    fence.complete();
    std::thread([&] { copy_of_it.wait(); }).join();
    EXPECT_TRUE(marked.done());
  }
}

TEST(DeviceEvents, one_queue_waits_for_the_other) {
  const auto device = Device::open({});
  if (runs_in_the_callers_thread(*device)) GTEST_SKIP() << "it would wait in `mark`";
  Fence fence = device->make_fence();
  device->wait_for(Queue::transfer, fence.event());
  device->wait_for(Queue::compute, device->mark(Queue::transfer));
  const Event computed = device->mark(Queue::compute);
  give_time();
  EXPECT_FALSE(computed.done());
  fence.complete();
  EXPECT_TRUE(happens(computed));
}

TEST(DeviceEvents, work_behind_a_fence_reads_what_the_host_wrote_before_it_was_complete) {
  const auto device = Device::open({});
  const testing::SharedPages pages(kCount * 4);
  const Buffer from = device->memory().adopt(pages.given(), kCount * 4, "given"), to = buffer_of(*device, 0);
  const Event ours = device->mark(Queue::compute);
  HostView view = device->map(whole(from), Access::write, ours);
  const auto bytes = view.bytes();
  Fence fence = device->make_fence();
  device->wait_for(Queue::compute, fence.event());
  device->copy(whole(from), whole(to));
  std::thread host([&, fence = std::move(fence)]() mutable {
    give_time();
    std::ranges::fill(std::span(reinterpret_cast<std::int32_t*>(bytes.data()), kCount), 7);
    view.release().wait();
    fence.complete();
  });
  const Ints got = read(*device, to);
  host.join();
  EXPECT_EQ(got, Ints(kCount, 7));
}

TEST(DeviceEvents, a_fence_destroyed_before_it_is_complete_lets_its_work_run_and_is_told) {
  const auto device = Device::open({});
  const Buffer buffer = buffer_of(*device, 1);
  {
    const Fence fence = device->make_fence();
    device->wait_for(Queue::compute, fence.event());
    const std::int32_t two = 2;
    device->fill(whole(buffer), std::as_bytes(std::span(&two, 1)));
  }
  const char* const told = "fence: it was destroyed before it was complete; what was enqueued behind it has computed with unfinished data";
  EXPECT_EQ(message_of<DeviceError>([&] { read(*device, buffer); }), told);
  EXPECT_EQ(message_of<DeviceError>([&] { device->read_later(whole(buffer))->get(); }), told);
  EXPECT_EQ(message_of<DeviceError>([&] { device->mark(Queue::compute).wait(); }), told);
}

TEST(DeviceEvents, a_fence_moved_from_holds_nothing) {
  const auto device = Device::open({});
  const Buffer buffer = buffer_of(*device, 1);
  Fence last = device->make_fence();
  {
    Fence first = device->make_fence();
    device->wait_for(Queue::compute, first.event());
    std::swap(first, last);
    first.complete();
  }
  last.complete();
  last.complete();
  EXPECT_EQ(read(*device, buffer), Ints(kCount, 1));
}

TEST(DeviceEvents, an_event_of_another_device_is_refused) {
  const auto one = Device::open({}), other = Device::open({});
  const Event event = one->mark(Queue::compute);
  const char* const told = "wait_for: the event is another device's; accepted: one of this device";
  EXPECT_EQ(message_of<UsageError>([&] { other->wait_for(Queue::compute, event); }), told);
}

// A batch is on its way while the step before it computes.
TEST(DeviceEvents, neither_writes_nor_reads_that_come_later_wait_for_the_queue) {
  const auto device = Device::open({});
  const Buffer buffer = buffer_of(*device, 1);
  Fence fence = device->make_fence();
  device->wait_for(Queue::compute, fence.event());
  const Ints threes(kCount, 3), fours(kCount, 4);
  std::unique_ptr<PendingRead> pending;
  const auto enqueue = std::async(std::launch::async, [&] {
    device->write(whole(buffer), std::as_bytes(std::span(threes)));
    const auto bytes = std::as_bytes(std::span(fours));
    device->write(whole(buffer), std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end()));
    if (!runs_in_the_callers_thread(*device)) pending = device->read_later(whole(buffer));
  });
  EXPECT_EQ(enqueue.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  fence.complete();
  enqueue.wait();
  if (pending) {
    EXPECT_EQ(reinterpret_cast<const std::int32_t*>(pending->get().data())[kCount - 1], 4);
  }
  EXPECT_EQ(read(*device, buffer), fours);
}

}  // namespace
}  // namespace gemel::opencl
