// Views of device memory, and buffers in memory that the caller gives.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "tests/support/device/shared_pages.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"

namespace gemel::opencl {
namespace {

using testing::message_of;
using testing::SharedPages;

constexpr std::int64_t kBytes = 4 * kHostPage;

void fill(Device& device, const Region& region, char with) { device.fill(region, std::as_bytes(std::span(&with, 1))); }

bool all_are(std::span<const std::byte> bytes, char wanted) {
  return std::ranges::all_of(bytes, [&](std::byte b) { return b == static_cast<std::byte>(wanted); });
}

std::vector<std::byte> read(Device& device, const Region& region) {
  std::vector<std::byte> out(at(region.bytes));
  device.read(region, out);
  return out;
}

/// Buffers as the allocator makes them, and in memory that is given.
struct Buffers {
  SharedPages pages{kBytes};
  Buffer small, large, given;
  explicit Buffers(Device& device)
      : small(device.memory().allocate(kBytes, "small")),
        large(device.memory().allocate(std::int64_t{4} << 20, "large")),
        given(device.memory().adopt(pages.given(), kBytes, "given")) {}
  std::vector<const Buffer*> all() const { return {&small, &large, &given}; }
};

TEST(DeviceViews, show_what_kernels_wrote_into_their_region) {
  Device& device = testing::test_device();
  const Buffers buffers(device);
  for (const Buffer* b : buffers.all()) {
    fill(device, whole(*b), 'a');
    fill(device, {b->block(), kHostPage, kHostPage}, 'b');
    const HostView view = device.map({b->block(), kHostPage, kHostPage}, Access::read, device.mark(Queue::compute));
    EXPECT_EQ(std::ssize(view.bytes()), kHostPage);
    EXPECT_TRUE(all_are(view.bytes(), 'b'));
  }
}

TEST(DeviceViews, what_is_written_in_them_is_what_kernels_read) {
  Device& device = testing::test_device();
  const Buffers buffers(device);
  const Buffer copied = device.memory().allocate(kBytes, "copied");
  for (const Access access : {Access::write, Access::read_write})
    for (const Buffer* b : buffers.all()) {
      const Region region{b->block(), 0, kBytes};
      fill(device, region, 'a');
      HostView view = device.map(region, access, device.mark(Queue::compute));
      const auto bytes = view.bytes();
      EXPECT_TRUE(access == Access::write || all_are(bytes, 'a'));
      std::memset(bytes.data(), 'c', bytes.size());
      device.wait_for(Queue::compute, view.release());
      device.copy(region, whole(copied));
      EXPECT_TRUE(all_are(read(device, whole(copied)), 'c'));
    }
}

TEST(DeviceViews, of_given_memory_show_it_at_its_own_address_and_at_others) {
  Device& device = testing::test_device();
  const Buffers buffers(device);
  fill(device, whole(buffers.given), 'g');
  const HostView view = device.map(whole(buffers.given), Access::read, device.mark(Queue::compute));
  EXPECT_EQ(view.bytes().data(), buffers.pages.given().first.get());
  EXPECT_TRUE(all_are(buffers.pages.seen(), 'g'));
}

TEST(DeviceViews, of_memory_that_is_not_in_use_do_not_wait_for_what_is_enqueued) {
  const auto device = Device::open({});
  const Buffers buffers(*device);
  for (const Buffer* b : buffers.all()) fill(*device, whole(*b), 'a');
  device->finish();
  Fence fence = device->make_fence();
  device->wait_for(Queue::compute, fence.event());
  fill(*device, whole(device->memory().allocate(kBytes, "another")), 'b');
  for (const Buffer* b : buffers.all()) {
    const HostView view = device->map({b->block(), 0, kHostPage}, Access::read, {});
    const auto seen = std::async(std::launch::async, [&] { EXPECT_TRUE(all_are(view.bytes(), 'a')); });
    const bool in_time = seen.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
    EXPECT_TRUE(in_time);
    if (!in_time) fence.complete();
  }
  fence.complete();
}

// Some drivers let go of it a moment after the queue has drained; a queue of Mesa's rusticl may keep its last commands, and with them the
// memory, until later ones.
TEST(DeviceGivenMemory, is_counted_and_let_go_of_when_what_is_enqueued_is_done) {
  const SharedPages pages(kBytes);
  std::promise<void> freed;
  const auto is_freed = freed.get_future();
  const auto device = Device::open({});
  Allocator& memory = device->memory();
  const MemoryStatistics before = memory.statistics();
  {
    const Buffer buffer = memory.adopt({{pages.given().first.get(), [&freed](std::byte*) { freed.set_value(); }}, kBytes}, kBytes, "given");
    EXPECT_EQ(memory.statistics().in_use, before.in_use + kBytes);
    fill(*device, whole(buffer), 'x');
    EXPECT_TRUE(all_are(read(*device, whole(buffer)), 'x'));
    fill(*device, whole(buffer), 'y');
    EXPECT_NE(is_freed.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  }
  device->finish();
  for (int tries = 0; tries < 30 && is_freed.wait_for(std::chrono::seconds(1)) != std::future_status::ready; ++tries) device->finish();
  EXPECT_EQ(is_freed.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_TRUE(all_are(pages.seen(), 'y') || !device->profile().shares_host_memory);  // a GPU works in a copy
  EXPECT_EQ(memory.statistics().in_use, before.in_use);
  EXPECT_EQ(memory.statistics().cached, before.cached);
}

TEST(DeviceGivenMemory, that_does_not_fit_is_refused) {
  Allocator& memory = testing::test_device().memory();
  const SharedPages pages(kBytes);
  HostBytes given = pages.given();
  const auto refusal = [&] { return message_of<UsageError>([&] { memory.adopt(given, kBytes, "gradients"); }); };
  given.bytes = kHostPage;
  EXPECT_EQ(refusal(), "host memory: 4096 bytes are given for gradients; accepted: 16384 or more");
  given = {{pages.given().first, pages.given().first.get() + 64}, kBytes};
  EXPECT_EQ(refusal(), "host memory: that for gradients begins 64 bytes behind a page; accepted: an address that 4096 divides");
  given = {};
  EXPECT_EQ(refusal(), "host memory: none is given for gradients; accepted: 16384 bytes or more");
}

TEST(DeviceGivenMemory, counts_towards_the_limit) {
  const auto device = Device::open({.memory_limit = 1 << 14});
  const SharedPages pages(2 * kBytes);
  const std::string text = message_of<MemoryError>([&] { device->memory().adopt(pages.given(), 2 * kBytes, "gradients"); });
  EXPECT_NE(text.find("32768 bytes asked for gradients"), std::string::npos) << text;
}

}  // namespace
}  // namespace gemel::opencl
