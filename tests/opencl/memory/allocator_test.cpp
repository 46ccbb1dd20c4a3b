// The allocators of device memory: reuse, limits and exact sizes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <thread>

#include "engine/base/error.h"
#include "tests/support/device/test_device.h"

namespace gemel::opencl {
namespace {

/// A device of its own, so that its statistics are the test's.
std::shared_ptr<Device> fresh_device(std::int64_t limit = 0) {
  DeviceOptions options;
  options.memory_limit = limit;
  return Device::open(options);
}

class ExactMode {
 public:
  ExactMode() { setenv("GEMEL_ALLOCATOR", "exact", 1); }
  ~ExactMode() {
    if (before_.empty())
      unsetenv("GEMEL_ALLOCATOR");
    else
      setenv("GEMEL_ALLOCATOR", before_.c_str(), 1);
  }

 private:
  std::string before_ = std::getenv("GEMEL_ALLOCATOR") ? std::getenv("GEMEL_ALLOCATOR") : "";
};

class CachingMode {
 public:
  CachingMode() { unsetenv("GEMEL_ALLOCATOR"); }
  ~CachingMode() {
    if (!before_.empty()) setenv("GEMEL_ALLOCATOR", before_.c_str(), 1);
  }

 private:
  std::string before_ = std::getenv("GEMEL_ALLOCATOR") ? std::getenv("GEMEL_ALLOCATOR") : "";
};

std::string refusal(Allocator& memory, std::int64_t bytes, std::string_view what) {
  try {
    const Buffer buffer = memory.allocate(bytes, what);
    return "";
  } catch (const DeviceError& error) {
    return error.what();
  }
}

TEST(DeviceAllocator, freed_block_is_handed_out_again) {
  const CachingMode mode;
  const auto device = fresh_device();
  const MemoryStatistics before = device->memory().statistics();
  Block* block = nullptr;
  {
    const Buffer first = device->memory().allocate(100'000, "first");
    block = first.block();
    EXPECT_EQ(first.bytes(), 100'000);
  }
  EXPECT_GE(device->memory().statistics().cached, 100'000);
  const Buffer second = device->memory().allocate(99'900, "second");
  EXPECT_EQ(second.block(), block);
  EXPECT_EQ(device->memory().statistics().hits, before.hits + 1);
  EXPECT_EQ(device->memory().statistics().requests, before.requests + 2);
}

TEST(DeviceAllocator, statistics_follow_requests_and_releases) {
  const CachingMode mode;
  const auto device = fresh_device();
  Allocator& memory = device->memory();
  const std::int64_t before = memory.statistics().in_use;
  Buffer a = memory.allocate(1 << 20, "a");
  Buffer b = memory.allocate(1 << 21, "b");
  EXPECT_EQ(memory.statistics().in_use, before + (3 << 20));
  a = Buffer();
  EXPECT_EQ(memory.statistics().in_use, before + (2 << 20));
  EXPECT_EQ(memory.statistics().cached, 1 << 20);
  EXPECT_EQ(memory.statistics().peak_in_use, before + (3 << 20));
  memory.reset_peak();
  EXPECT_EQ(memory.statistics().peak_in_use, before + (2 << 20));
  memory.trim();
  EXPECT_EQ(memory.statistics().cached, 0);
}

TEST(DeviceAllocator, cache_is_emptied_before_the_limit_refuses) {
  const CachingMode mode;
  const auto device = fresh_device(8 << 20);
  Allocator& memory = device->memory();
  { const Buffer a = memory.allocate(5 << 20, "a"); }
  EXPECT_EQ(memory.statistics().cached, 5 << 20);
  const Buffer b = memory.allocate(6 << 20, "b");
  EXPECT_EQ(memory.statistics().cached, 0);
}

TEST(DeviceAllocator, request_that_just_fits_is_not_refused_for_rounding) {
  const CachingMode mode;
  const auto device = fresh_device(8 << 20);
  const std::int64_t left = (8 << 20) - device->memory().statistics().in_use;
  EXPECT_EQ(device->memory().allocate(left, "all that is left").bytes(), left);
}

TEST(DeviceAllocator, large_requests_are_rounded_to_a_large_page_at_most) {
  const CachingMode mode;
  const auto device = fresh_device();
  const std::int64_t before = device->memory().statistics().in_use, bytes = 143000000;
  if (device->profile().max_allocation_bytes < 2 * bytes) GTEST_SKIP() << "the device holds no buffer so large";
  const Buffer arena = device->memory().allocate(bytes, "arena");
  EXPECT_GE(device->memory().statistics().in_use, before + bytes);
  EXPECT_LE(device->memory().statistics().in_use, before + bytes + (2 << 20));
}

TEST(DeviceAllocator, refusal_names_request_limit_and_largest_buffers) {
  const auto device = fresh_device(4 << 20);
  Allocator& memory = device->memory();
  std::vector<Buffer> held;
  for (int i = 1; i <= 6; ++i) held.push_back(memory.allocate(i * 100'000, "tensor " + std::to_string(i)));
  const std::string text = refusal(memory, 3'000'000, "conv2d float32 [64, 56, 56, 64]");
  for (const char* part : {"3000000 bytes", "conv2d float32 [64, 56, 56, 64]", "4194304", "tensor 6", "tensor 2"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  EXPECT_LT(text.find("tensor 6"), text.find("tensor 5")) << "largest first";
  EXPECT_EQ(text.find("tensor 1"), std::string::npos) << "only five: " << text;
  EXPECT_EQ(refusal(memory, 500'000, "smaller"), "") << "a refusal leaves the allocator usable";
}

TEST(DeviceAllocator, request_above_the_largest_allocation_is_refused) {
  const auto device = fresh_device(std::int64_t{1} << 50);
  const std::int64_t largest = device->profile().max_allocation_bytes;
  EXPECT_NE(refusal(device->memory(), largest + 1, "huge").find(std::to_string(largest)), std::string::npos);
}

TEST(DeviceAllocator, empty_buffer_can_be_made_and_passed) {
  Device& device = testing::test_device();
  const Buffer empty = device.memory().allocate(0, "empty");
  EXPECT_TRUE(empty);
  EXPECT_EQ(empty.bytes(), 0);
  device.write(whole(empty), std::span<const std::byte>());
  device.fill(whole(empty), std::as_bytes(std::span("x", 1)));
  device.copy(whole(empty), whole(empty));
  EXPECT_TRUE(device.read_later(whole(empty))->get().empty());
}

TEST(DeviceAllocator, exact_mode_never_hands_out_a_block_again) {
  const ExactMode mode;
  const auto device = fresh_device();
  Allocator& memory = device->memory();
  const std::int64_t before = memory.statistics().in_use;
  std::set<Block*> blocks;
  for (int i = 0; i < 3; ++i) {
    const Buffer buffer = memory.allocate(1001, "odd");
    blocks.insert(buffer.block());
    EXPECT_EQ(memory.statistics().in_use, before + 1001) << "no slack";
  }
  EXPECT_EQ(blocks.size(), 3u);
  EXPECT_EQ(memory.statistics().hits, 0);
  memory.trim();
  EXPECT_EQ(memory.statistics().cached, 0);
}

TEST(DeviceAllocator, scratch_memory_is_one_buffer_of_the_largest_size_asked_for) {
  const CachingMode mode;
  const auto device = fresh_device(10'000'000);
  Allocator& memory = device->memory();
  const std::int64_t before = memory.statistics().in_use;
  Block* block = memory.scratch(3'000'000, "first").region.block;
  {
    const Scratch smaller = memory.scratch(1000, "second");
    EXPECT_EQ(smaller.region.block, block);
    EXPECT_EQ(smaller.region.bytes, 1000);
  }
  EXPECT_EQ(memory.scratch(6'000'000, "third").region.bytes, 6'000'000);
  EXPECT_GE(memory.statistics().in_use - before, 6'000'000);
  EXPECT_LT(memory.statistics().in_use - before, 7'000'000) << "the outgrown one is held too";
  const Buffer all = memory.allocate(9'000'000, "what needs its room");
  EXPECT_LT(memory.statistics().in_use - before, 9'500'000) << "it is held still";
}

TEST(DeviceAllocator, scratch_memory_in_use_is_not_given_up) {
  const CachingMode mode;
  const auto device = fresh_device(10'000'000);
  const Scratch held = device->memory().scratch(6'000'000, "held");
  EXPECT_NE(refusal(device->memory(), 9'000'000, "too much").find("scratch memory"), std::string::npos);
}

TEST(DeviceAllocator, buffers_may_outlive_their_device) {
  Buffer buffer;
  {
    const auto device = fresh_device();
    buffer = device->memory().allocate(4096, "survivor");
    device->write(whole(buffer), std::vector<std::byte>(4096));
  }
  EXPECT_EQ(buffer.bytes(), 4096);
  buffer = Buffer();
  EXPECT_FALSE(buffer);
}

TEST(DeviceAllocator, threads_share_it_without_handing_out_a_block_twice) {
  Device& device = testing::test_device();
  const std::int64_t before = device.memory().statistics().in_use;
  std::vector<std::thread> threads;
  std::vector<std::vector<Buffer>> kept(4);
  for (std::size_t t = 0; t < kept.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        kept[t].push_back(device.memory().allocate(600 + i % 7, "shared"));
        if (i % 3 == 0) kept[t].erase(kept[t].begin());
      }
    });
  for (std::thread& t : threads) t.join();
  std::set<Block*> blocks;
  std::size_t buffers = 0;
  for (const auto& of_thread : kept) {
    buffers += of_thread.size();
    for (const Buffer& b : of_thread) blocks.insert(b.block());
  }
  EXPECT_EQ(blocks.size(), buffers);
  kept.clear();
  EXPECT_EQ(device.memory().statistics().in_use, before);
}

}  // namespace
}  // namespace gemel::opencl
