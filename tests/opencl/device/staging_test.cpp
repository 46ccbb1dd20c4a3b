// Batches and results of a device with memory of its own: by pinned memory, while kernels run, and as they would come without it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "tests/support/device/test_device.h"

namespace gemel::opencl {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::int64_t kBatch = 256 << 10;

Bytes batch_of(int number, std::int64_t bytes = kBatch) {
  Bytes out(at(bytes));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(number * 31 + static_cast<int>(i * 7 + i / 251));
  return out;
}

Bytes contents_of(Device& device, const Buffer& buffer) {
  Bytes out(at(buffer.bytes()));
  device.read(whole(buffer), out);
  return out;
}

Bytes read_together(Device& device, std::initializer_list<Region> regions) {
  const auto pending = device.read_later(std::span(regions.begin(), regions.size()));
  const std::span<const std::byte> bytes = pending->get();
  return {bytes.begin(), bytes.end()};
}

/// Of a pretended GPU, which takes its batches so. Oclgrind runs a queue in the thread that marks or reads it.
class DeviceStaging : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = testing::pretended_device("gpu");
    if (device_->profile().platform == "Oclgrind") GTEST_SKIP() << "its queues have no threads";
    ASSERT_TRUE(device_->profile().stages_transfers);
  }
  Buffer buffer_of(std::int64_t bytes) { return device_->memory().allocate(bytes, "test data"); }
  /// @return whether the device has taken a copy of the bytes, and keeps none of the caller's
  bool upload(const Buffer& to, const Bytes& bytes) {
    auto given = std::make_shared<const Bytes>(bytes);
    const std::weak_ptr<const Bytes> seen = given;
    device_->write(whole(to), std::move(given));
    return seen.expired();
  }
  /// Some staging memory is then there, and free.
  void warm_up() {
    const Buffer buffer = buffer_of(kBatch);
    for (int round = 0; round < 4; ++round) {
      upload(buffer, batch_of(round));
      EXPECT_EQ(contents_of(*device_, buffer), batch_of(round));
    }
  }

  std::shared_ptr<Device> device_;
};

TEST_F(DeviceStaging, a_batch_is_uploaded_while_the_compute_queue_is_held_back_and_used_in_its_turn) {
  warm_up();
  const Buffer input = buffer_of(kBatch), before = buffer_of(kBatch), after = buffer_of(kBatch);
  upload(input, batch_of(50));
  EXPECT_EQ(contents_of(*device_, input), batch_of(50));
  Fence fence = device_->make_fence();
  device_->wait_for(Queue::compute, fence.event());
  auto enqueued = std::async(std::launch::async, [&] {
    device_->copy(whole(input), whole(before));  // the step that is still computing reads the batch before
    const bool staged = upload(input, batch_of(51));
    device_->copy(whole(input), whole(after));
    device_->mark(Queue::transfer).wait();
    return staged;
  });
  EXPECT_EQ(enqueued.wait_for(std::chrono::seconds(30)), std::future_status::ready) << "the transfer waits for the compute queue";
  fence.complete();
  EXPECT_TRUE(enqueued.get());
  EXPECT_EQ(contents_of(*device_, before), batch_of(50));
  EXPECT_EQ(contents_of(*device_, after), batch_of(51));
}

TEST_F(DeviceStaging, more_batches_than_there_is_staging_memory_for_wait_for_nothing_and_keep_their_order) {
  warm_up();
  constexpr int kBatches = 12;
  const Buffer input = buffer_of(kBatch);
  std::vector<Buffer> seen;
  for (int i = 0; i < kBatches; ++i) seen.push_back(buffer_of(kBatch));
  Fence fence = device_->make_fence();
  device_->wait_for(Queue::compute, fence.event());
  auto enqueued = std::async(std::launch::async, [&] {
    int staged = 0;
    for (int i = 0; i < kBatches; ++i) {
      staged += upload(input, batch_of(i));
      device_->copy(whole(input), whole(seen[at(i)]));
    }
    return staged;
  });
  EXPECT_EQ(enqueued.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  fence.complete();
  EXPECT_GE(enqueued.get(), 1) << "some go by staging memory";
  for (int i = 0; i < kBatches; ++i) EXPECT_EQ(contents_of(*device_, seen[at(i)]), batch_of(i)) << i;
}

// The memory of one that is released goes to the next owner, while the transfers of both are on their way.
TEST_F(DeviceStaging, batches_of_any_size_arrive_in_memory_that_is_handed_on) {
  warm_up();
  std::vector<std::pair<Buffer, Bytes>> kept;
  int staged = 0;
  for (int i = 0; i < 60; ++i) {
    const std::int64_t bytes = (i % 5 == 4 ? 1000 : 64 << 10) + 4096 * (i * 7 % 64);
    const Buffer input = buffer_of(bytes);
    staged += upload(input, batch_of(i, bytes));
    kept.emplace_back(buffer_of(bytes), batch_of(i, bytes));
    device_->copy(whole(input), whole(kept.back().first));
  }
  EXPECT_GE(staged, 1);
  for (const auto& [buffer, wanted] : kept) EXPECT_EQ(contents_of(*device_, buffer), wanted);
}

TEST_F(DeviceStaging, a_part_of_a_buffer_is_written_and_no_more) {
  warm_up();
  const Buffer buffer = buffer_of(2 * kBatch);
  const std::byte nine{9};
  device_->fill(whole(buffer), std::span(&nine, 1));
  device_->write({buffer.block(), 4096, kBatch}, std::make_shared<const Bytes>(batch_of(3)));
  Bytes wanted(at(2 * kBatch), nine);
  std::ranges::copy(batch_of(3), wanted.begin() + 4096);
  EXPECT_EQ(contents_of(*device_, buffer), wanted);
  EXPECT_THROW(device_->write({buffer.block(), 0, kBatch - 1}, std::make_shared<const Bytes>(batch_of(3))), InternalError);
}

TEST_F(DeviceStaging, takes_no_memory_beyond_the_limit) {
  const auto device = testing::pretended_device("gpu", {.memory_limit = kBatch + 4096});
  const Buffer input = device->memory().allocate(kBatch, "input");
  for (int i = 0; i < 4; ++i) {
    device->write(whole(input), std::make_shared<const Bytes>(batch_of(i)));
    EXPECT_EQ(contents_of(*device, input), batch_of(i));
  }
  EXPECT_EQ(device->memory().statistics().in_use, kBatch);
}

TEST_F(DeviceStaging, gives_way_to_what_has_no_other_room) {
  const auto device = testing::pretended_device("gpu", {.memory_limit = 8 * kBatch});
  const Buffer input = device->memory().allocate(kBatch, "input");
  for (int i = 0; i < 4; ++i) {
    device->write(whole(input), std::make_shared<const Bytes>(batch_of(i)));
    EXPECT_EQ(contents_of(*device, input), batch_of(i));
  }
  EXPECT_GE(device->memory().statistics().in_use, 2 * kBatch) << "input, and staging memory";
  const Buffer rest = device->memory().allocate(6 * kBatch, "the rest");
  device->write(whole(input), std::make_shared<const Bytes>(batch_of(9)));
  EXPECT_EQ(contents_of(*device, input), batch_of(9));
}

TEST_F(DeviceStaging, regions_that_are_read_together_come_one_behind_the_other) {
  const auto host = Device::open({});
  for (Device* device : {device_.get(), host.get()}) {
    const Buffer a = device->memory().allocate(4096, "a"), b = device->memory().allocate(3 << 20, "b");
    device->write(whole(a), batch_of(1, 4096));
    device->write(whole(b), batch_of(2, 3 << 20));
    for (int round = 0; round < 8; ++round) {
      Bytes wanted = batch_of(1, 4096);
      wanted.resize(12);
      const Bytes of_b = batch_of(2, 3 << 20);
      wanted.insert(wanted.end(), of_b.begin() + 128, of_b.begin() + 128 + 5);
      EXPECT_EQ(read_together(*device, {{a.block(), 0, 12}, {b.block(), 0, 0}, {b.block(), 128, 5}}), wanted);
    }
    EXPECT_EQ(read_together(*device, {whole(b)}), batch_of(2, 3 << 20)) << "more than is staged";
    EXPECT_TRUE(read_together(*device, {}).empty());
    EXPECT_TRUE(read_together(*device, {{a.block(), 0, 0}}).empty());
  }
}

TEST_F(DeviceStaging, results_that_are_read_later_are_those_of_their_step) {
  const Buffer result = buffer_of(4096);
  std::vector<std::unique_ptr<PendingRead>> pending;
  for (int i = 0; i < 20; ++i) {
    const std::byte number{static_cast<unsigned char>(i)};
    device_->fill(whole(result), std::span(&number, 1));
    pending.push_back(device_->read_later(whole(result)));
    if (i % 3 == 2) pending[at(i - 1)] = nullptr;  // nobody asks for it
  }
  for (int i = 0; i < 20; ++i) {
    if (!pending[at(i)]) continue;
    EXPECT_EQ(std::ranges::count(pending[at(i)]->get(), std::byte{static_cast<unsigned char>(i)}), 4096) << i;
  }
}

TEST_F(DeviceStaging, threads_upload_and_read_side_by_side) {
  std::vector<std::thread> threads;
  std::atomic<int> staged = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const Buffer input = buffer_of(kBatch);
      for (int round = 0; round < 25; ++round) {
        staged += upload(input, batch_of(100 * t + round));
        const auto pending = device_->read_later({input.block(), kBatch - 64, 64});
        const Bytes wanted = batch_of(100 * t + round);
        EXPECT_TRUE(std::ranges::equal(pending->get(), std::span(wanted).last(64))) << t << ", " << round;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(staged, 1);
}

}  // namespace
}  // namespace gemel::opencl
