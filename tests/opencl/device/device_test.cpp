// Devices: choice, transfers, kernels and their times.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <cctype>
#include <cstring>
#include <numeric>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "opencl/device/selection.h"
#include "opencl/handle.h"
#include "opencl/program/kernel.h"
#include "tests/support/device/sub_devices.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"

namespace gemel::opencl {
namespace {

using testing::message_of;

const char* const kSource = R"(
__kernel void affine(__global const float* x, __global float* y, const int n, const long shift, const float scale) {
  const size_t i = get_global_id(0);
  if (i < n) y[i] = scale * x[i] + shift;
}
__kernel void index3(__global int* y) {
  const size_t at = (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) + get_global_id(0);
  y[at] = (int)(100 * get_global_id(2) + 10 * get_global_id(1) + get_global_id(0));
}
__kernel void reverse(__global const int* x, __global int* y) {
  __local int scratch[4];
  const size_t i = get_local_id(0), n = get_local_size(0);
  scratch[i] = x[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  y[get_global_id(0)] = scratch[n - 1 - i];
}
)";

Kernel& test_kernel(Device& device, std::string_view name) {
  return device.generated_kernel(
      "device test", [] { return std::string(kSource); }, name);
}

template <class T>
std::vector<T> read(Device& device, const Region& region) {
  std::vector<T> out(at(region.bytes) / sizeof(T));
  device.read(region, std::as_writable_bytes(std::span(out)));
  return out;
}

template <class T>
Buffer upload(Device& device, const std::vector<T>& values) {
  Buffer buffer = device.memory().allocate(std::ssize(values) * static_cast<std::int64_t>(sizeof(T)), "test data");
  device.write(whole(buffer), std::as_bytes(std::span(values)));
  return buffer;
}

template <class E>
bool throws(const auto& action) {
  try {
    action();
  } catch (const E&) {
    return true;
  }
  return false;
}

TEST(DeviceQueue, kernel_sees_every_kind_of_argument) {
  Device& device = testing::test_device();
  const Buffer x = upload<float>(device, {1, 2, 3, 4}), y = upload<float>(device, {0, 0, 0, 0});
  device.run(test_kernel(device, "affine"), range1(4), {whole(x), whole(y), 3, std::int64_t{10}, 0.5f});
  EXPECT_EQ(read<float>(device, whole(y)), (std::vector<float>{10.5f, 11, 11.5f, 0}));
}

TEST(DeviceQueue, groups_share_their_local_memory) {
  Device& device = testing::test_device();
  const Buffer x = upload<std::int32_t>(device, {0, 1, 2, 3, 4, 5, 6, 7}), y = upload<std::int32_t>(device, std::vector<std::int32_t>(8));
  device.run(test_kernel(device, "reverse"), range1(8, 4), {whole(x), whole(y)});
  EXPECT_EQ(read<std::int32_t>(device, whole(y)), (std::vector<std::int32_t>{3, 2, 1, 0, 7, 6, 5, 4}));
}

TEST(DeviceQueue, region_inside_a_buffer_is_passed_as_its_own) {
  Device& device = testing::test_device();
  const std::int64_t offset = device.profile().base_alignment_bytes;
  std::vector<float> values(at(2 * offset / 4));
  std::iota(values.begin(), values.end(), 0.f);
  const Buffer x = upload(device, values), y = upload(device, std::vector<float>(values.size()));
  const Region from{x.block(), offset, offset}, to{y.block(), offset, offset};
  for (int repeat = 0; repeat < 2; ++repeat) device.run(test_kernel(device, "affine"), range1(offset / 4), {from, to, 3, std::int64_t{1}, 2.f});
  const auto got = read<float>(device, whole(y));
  const std::size_t first = at(offset / 4);
  EXPECT_EQ(got[first - 1], 0);
  EXPECT_EQ(got[first], 2 * values[first] + 1);
  EXPECT_EQ(got[first + 2], 2 * values[first + 2] + 1);
  EXPECT_EQ(got[first + 3], 0);
}

TEST(DeviceQueue, ranges_have_up_to_three_dimensions) {
  Device& device = testing::test_device();
  const Buffer y = upload(device, std::vector<std::int32_t>(24));
  device.run(test_kernel(device, "index3"), range3({2, 3, 4}, {1, 3, 2}), {whole(y)});
  const auto got = read<std::int32_t>(device, whole(y));
  EXPECT_EQ(got[0], 0);
  EXPECT_EQ(got[1], 1);
  EXPECT_EQ(got[2], 10);
  EXPECT_EQ(got[23], 321);
}

TEST(DeviceQueue, groups_are_halved_until_the_kernel_takes_them) {
  EXPECT_EQ(in_groups_of(range2({64, 6}, {16, 3}), 10), range2({64, 6}, {2, 3}));
  EXPECT_EQ(in_groups_of(range1(30, 15), 14), range1(30, 1));
  EXPECT_EQ(in_groups_of(range1(64), 2), range1(64));
  Device& device = testing::test_device();
  const std::int64_t n = 4 * device.profile().max_group_size;
  const Buffer x = upload(device, std::vector<float>(at(n), 2)), y = upload(device, std::vector<float>(at(n)));
  device.run(test_kernel(device, "affine"), range1(n, n / 2), {whole(x), whole(y), static_cast<std::int32_t>(n), std::int64_t{1}, 3.f});
  EXPECT_EQ(read<float>(device, whole(y)), std::vector<float>(at(n), 7));
}

TEST(DeviceQueue, empty_range_does_nothing) {
  Device& device = testing::test_device();
  const Buffer y = upload<std::int32_t>(device, {7});
  device.run(test_kernel(device, "index3"), range3({1, 0, 1}), {whole(y)});
  device.run(test_kernel(device, "index3"), range1(0, 64), {whole(y)});
  EXPECT_EQ(read<std::int32_t>(device, whole(y))[0], 7);
}

TEST(DeviceQueue, groups_that_do_not_divide_the_range_are_a_fault) {
  Device& device = testing::test_device();
  const Buffer y = upload<std::int32_t>(device, {7});
  EXPECT_TRUE(throws<InternalError>([&] { device.run(test_kernel(device, "index3"), range1(10, 4), {whole(y)}); }));
}

TEST(DeviceQueue, wrong_argument_is_named_with_its_kernel) {
  Device& device = testing::test_device();
  const std::string text = message_of<Error>([&] { device.run(test_kernel(device, "index3"), range1(1), {1, 2}); });
  EXPECT_NE(text.find("clSetKernelArg: CL_INVALID_ARG_"), std::string::npos) << text;
  EXPECT_NE(text.find("index3"), std::string::npos) << text;
}

TEST(DeviceQueue, fill_repeats_patterns_of_each_size) {
  Device& device = testing::test_device();
  const Buffer buffer = upload(device, std::vector<std::uint8_t>(32, 9));
  const auto pattern = [](const auto& value) { return std::as_bytes(std::span(&value, 1)); };
  const std::uint8_t one = 1;
  const std::uint16_t two = 0x0203;
  const std::uint32_t four = 0x04050607;
  const std::uint64_t eight = 0x08090a0b0c0d0e0f;
  device.fill(whole(buffer), pattern(one));
  EXPECT_EQ(read<std::uint8_t>(device, whole(buffer)), std::vector<std::uint8_t>(32, one));
  device.fill(whole(buffer), pattern(two));
  EXPECT_EQ(read<std::uint16_t>(device, whole(buffer)), std::vector<std::uint16_t>(16, two));
  device.fill({buffer.block(), 8, 16}, pattern(four));
  EXPECT_EQ(read<std::uint32_t>(device, whole(buffer)), (std::vector<std::uint32_t>{0x02030203, 0x02030203, four, four, four, four, 0x02030203, 0x02030203}));
  device.fill(whole(buffer), pattern(eight));
  EXPECT_EQ(read<std::uint64_t>(device, whole(buffer)), std::vector<std::uint64_t>(4, eight));
  EXPECT_TRUE(throws<InternalError>([&] { device.fill({buffer.block(), 0, 3}, pattern(two)); }));
}

TEST(DeviceQueue, copies_and_writes_keep_to_their_regions) {
  Device& device = testing::test_device();
  const Buffer a = upload<std::int32_t>(device, {1, 2, 3, 4}), b = upload<std::int32_t>(device, {5, 6, 7, 8});
  device.copy({a.block(), 4, 8}, {b.block(), 8, 8});
  EXPECT_EQ(read<std::int32_t>(device, whole(b)), (std::vector<std::int32_t>{5, 6, 2, 3}));
  const std::int32_t nine = 9;
  device.write({b.block(), 4, 4}, std::as_bytes(std::span(&nine, 1)));
  EXPECT_EQ(read<std::int32_t>(device, {b.block(), 4, 8}), (std::vector<std::int32_t>{9, 2}));
  EXPECT_TRUE(throws<InternalError>([&] { device.copy(whole(a), {b.block(), 0, 4}); }));
  EXPECT_TRUE(throws<InternalError>([&] { device.write({b.block(), 0, 2}, std::as_bytes(std::span(&nine, 1))); }));
}

TEST(DeviceQueue, written_bytes_may_change_once_write_returned) {
  Device& device = testing::test_device();
  std::vector<std::int32_t> values(1 << 16, 1);
  const Buffer buffer = device.memory().allocate(4 << 16, "test data");
  device.write(whole(buffer), std::as_bytes(std::span(values)));
  std::fill(values.begin(), values.end(), 2);
  EXPECT_EQ(read<std::int32_t>(device, whole(buffer)), std::vector<std::int32_t>(1 << 16, 1));
}

TEST(DeviceQueue, later_read_sees_what_was_enqueued_before_it) {
  Device& device = testing::test_device();
  const Buffer buffer = upload<std::int32_t>(device, {1, 2});
  auto pending = device.read_later(whole(buffer));
  const std::int32_t other[] = {3, 4};
  device.write(whole(buffer), std::as_bytes(std::span(other)));
  const auto bytes = pending->get();
  ASSERT_EQ(bytes.size(), 8u);
  EXPECT_EQ(reinterpret_cast<const std::int32_t*>(bytes.data())[0], 1);
  EXPECT_EQ(reinterpret_cast<const std::int32_t*>(bytes.data())[1], 2);
}

TEST(DeviceQueue, threads_may_run_the_same_kernel) {
  Device& device = testing::test_device();
  const Buffer x = upload<float>(device, {1});
  std::vector<Buffer> results;
  for (int t = 0; t < 4; ++t) results.push_back(upload<float>(device, {0}));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) device.run(test_kernel(device, "affine"), range1(1), {whole(x), whole(results[at(t)]), 1, std::int64_t{t}, 1.f});
    });
  for (std::thread& t : threads) t.join();
  for (int t = 0; t < 4; ++t) EXPECT_EQ(read<float>(device, whole(results[at(t)]))[0], static_cast<float>(1 + t));
}

TEST(DevicePrograms, build_failure_shows_the_log_and_the_title) {
  Device& device = testing::test_device();
  const std::string text = message_of<Error>([&] {
    device.generated_kernel(
        "broken program", [] { return std::string("__kernel void f(__global int* x) { *x = undeclared_name; }"); }, "f");
  });
  for (const char* part : {"CL_BUILD_PROGRAM_FAILURE", "broken program", "undeclared_name"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
}

TEST(DevicePrograms, missing_kernel_or_file_is_named) {
  Device& device = testing::test_device();
  EXPECT_NE(message_of<Error>([&] { test_kernel(device, "no_such_kernel"); }).find("no_such_kernel"), std::string::npos);
  EXPECT_NE(message_of<Error>([&] { device.kernel("no_such_file.cl", "f"); }).find("no_such_file.cl"), std::string::npos);
}

TEST(DevicePrograms, kernel_is_made_once) {
  Device& device = testing::test_device();
  EXPECT_EQ(&test_kernel(device, "affine"), &test_kernel(device, "affine"));
  EXPECT_NE(&test_kernel(device, "affine"), &test_kernel(device, "index3"));
}

TEST(DeviceProfiling, work_is_told_in_order_with_its_charges) {
  DeviceOptions options;
  options.profiling = Profiling::all;
  const auto device = Device::open(options);
  EXPECT_TRUE(device->settings().profiling);
  device->take_work();
  const Buffer y = upload(*device, std::vector<std::int32_t>(24));
  device->charge("layer1: index", 24, 96, [&] {
    device->fill(whole(y), std::as_bytes(std::span("x", 1)));
    device->run(test_kernel(*device, "index3"), range3({2, 3, 4}), {whole(y)});
  });
  device->charge("nothing", 7, 7, [] {});
  device->fill(whole(y), std::as_bytes(std::span("x", 1)));
  const auto work = device->take_work();
  ASSERT_EQ(work.size(), 3u);
  for (int i : {0, 1}) EXPECT_EQ(work[i].name.rfind("layer1: index/", 0), 0u) << work[i].name;
  EXPECT_EQ(work[0].flops, 0) << "what prepares";
  EXPECT_EQ(work[1].flops, 24);
  EXPECT_EQ(work[1].bytes, 96);
  EXPECT_EQ(work[2].flops, 0);
  EXPECT_EQ(work[2].name, "fill");
  for (const TimedWork& w : work) EXPECT_GE(w.end_ns, w.begin_ns);
  EXPECT_GE(work[1].begin_ns, work[0].begin_ns);
  EXPECT_TRUE(device->take_work().empty());
}

TEST(DeviceProfiling, threads_charge_while_another_takes_the_work) {
  const auto device = Device::open({.profiling = Profiling::all});
  const Buffer y = upload(*device, std::vector<std::int32_t>(24));
  const auto fill = [&] { device->fill(whole(y), std::as_bytes(std::span("x", 1))); };
  constexpr int kCharges = 50, kThreads = 2;
  std::vector<TimedWork> work;
  const auto keep = [&](std::vector<TimedWork> taken) { work.insert(work.end(), taken.begin(), taken.end()); };
  device->take_work();
  device->charge("outer", 1, 1, [&] {  // what another thread does meanwhile is not this one's
    fill();
    std::thread([&] {
      device->charge("inner", 2, 2, fill);
      device->finish();
      keep(device->take_finished_work());
    }).join();
    EXPECT_TRUE(work.empty()) << "the charge is not over";
  });
  keep(device->take_work());
  ASSERT_EQ(work.size(), 2u);
  EXPECT_EQ(work[0].name, "outer/fill");
  EXPECT_EQ(work[0].flops, 1);
  EXPECT_EQ(work[1].name, "inner/fill");
  EXPECT_EQ(work[1].flops, 2);

  work.clear();
  std::atomic<int> charging = kThreads;
  std::vector<std::thread> threads;
  for (int t = 1; t <= kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCharges; ++i) device->charge(std::to_string(t), t, t, [&] { fill(), fill(); });
      --charging;
    });
  while (charging > 0) keep(device->take_finished_work());
  for (std::thread& t : threads) t.join();
  keep(device->take_work());
  ASSERT_EQ(work.size(), 2u * kThreads * kCharges);
  for (int t = 1; t <= kThreads; ++t) {
    std::vector<std::int64_t> flops;
    for (const TimedWork& w : work)
      if (w.name == std::to_string(t) + "/fill") flops.push_back(w.flops);
    ASSERT_EQ(flops.size(), 2u * kCharges);
    for (std::size_t i = 0; i < flops.size(); ++i) EXPECT_EQ(flops[i], i % 2 ? t : 0) << "the last of a charge bears its cost";
  }
}

TEST(DeviceProfiling, a_charge_within_a_charge_is_a_fault_and_leaves_none_open) {
  const auto device = Device::open({.profiling = Profiling::all});
  EXPECT_TRUE(throws<InternalError>([&] { device->charge("outer", 1, 1, [&] { device->charge("inner", 1, 1, [] {}); }); }));
  device->charge("next", 1, 1, [] {});
}

TEST(DeviceProfiling, sampled_it_tells_of_what_was_enqueued_while_it_was_on) {
  const auto device = Device::open({.profiling = Profiling::sampled});
  EXPECT_FALSE(device->settings().profiling);
  const Buffer y = upload(*device, std::vector<std::int32_t>(24));
  const auto fill = [&] { device->fill(whole(y), std::as_bytes(std::span("x", 1))); };
  fill();
  EXPECT_TRUE(device->take_work().empty());
  device->time_work(Device::Timing::on);
  fill();
  device->time_work(Device::Timing::off);
  fill();
  EXPECT_EQ(device->take_work().size(), 1u);
}

TEST(DeviceProfiling, a_device_that_was_not_asked_to_times_nothing) {
  Device& device = testing::test_device();
  device.time_work(Device::Timing::on);
  const Buffer y = upload(device, std::vector<std::int32_t>(24));
  device.fill(whole(y), std::as_bytes(std::span("x", 1)));
  EXPECT_TRUE(device.take_work().empty());
}

TEST(DeviceProfile, facts_are_plausible) {
  const DeviceProfile& p = testing::test_device().profile();
  EXPECT_FALSE(p.name.empty());
  EXPECT_FALSE(p.platform.empty());
  EXPECT_GE(p.compute_units, 1);
  EXPECT_GE(p.simd_width, 1);
  EXPECT_GT(p.max_allocation_bytes, 1 << 20);
  EXPECT_GE(p.global_bytes, p.max_allocation_bytes);
  EXPECT_GT(p.estimated_gflops(), 0);
  const std::int64_t alignment = p.base_alignment_bytes;
  EXPECT_EQ(alignment & (alignment - 1), 0) << "a power of two";
}

TEST(DeviceSelection, index_of_a_listed_platform_opens_it) {
  const auto all = platforms();
  ASSERT_FALSE(all.empty());
  const std::string wanted = testing::test_device().profile().platform;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i].devices.size(), all[i].problems.size());
    if (all[i].name != wanted) continue;
    DeviceOptions options;
    options.platform = std::to_string(i);
    options.device = "0";
    EXPECT_EQ(Device::open(options)->profile().platform, wanted);
  }
}

TEST(DeviceSelection, part_of_a_name_is_found_in_any_case) {
  std::string part = testing::test_device().profile().platform.substr(0, 6);
  for (char& c : part) c = static_cast<char>(std::isupper(static_cast<unsigned char>(c)) ? std::tolower(c) : std::toupper(c));
  DeviceOptions options;
  options.platform = part;
  EXPECT_EQ(Device::open(options)->profile().platform, testing::test_device().profile().platform);
}

// A virtual machine is told of its whole host's.
TEST(DeviceSelection, the_last_cache_counts_as_no_more_than_16_MiB_a_unit) {
  const DeviceProfile& profile = testing::test_device().profile();
  EXPECT_LE(profile.cache_bytes, profile.compute_units * (std::int64_t{16} << 20));
}

TEST(DeviceSelection, unknown_platform_lists_those_found) {
  DeviceOptions options;
  options.platform = "no such platform";
  const std::string text = message_of<Error>([&] { Device::open(options); });
  EXPECT_TRUE(throws<UsageError>([&] { Device::open(options); }));
  EXPECT_NE(text.find("'no such platform'"), std::string::npos) << text;
  EXPECT_NE(text.find(testing::test_device().profile().platform), std::string::npos) << text;
  options.platform = "99";
  EXPECT_TRUE(throws<UsageError>([&] { Device::open(options); }));
}

TEST(DeviceSelection, unknown_device_is_refused) {
  DeviceOptions options;
  for (const char* wanted : {"99", "toaster", "99999999999", "0.99999999999"}) {
    options.device = wanted;
    const std::string text = message_of<UsageError>([&] { Device::open(options); });
    EXPECT_NE(text.find(wanted), std::string::npos) << text;
  }
}

TEST(DeviceSelection, threads_beyond_the_device_are_refused_once_the_driver_runs) {
  DeviceOptions options;
  const DeviceProfile& profile = testing::test_device().profile();
  if (!profile.is_cpu()) GTEST_SKIP() << "not a CPU";
  options.threads = profile.compute_units + 1;
  EXPECT_NE(message_of<UsageError>([&] { Device::open(options); }).find("threads"), std::string::npos);
}

TEST(DeviceSelection, the_environment_is_written_only_where_it_differs) {
  static char ours[] = "POCL_CPU_MAX_CU_COUNT=1";  // getenv tells whether this is still the text that the environment holds
  const char* const name = "POCL_CPU_MAX_CU_COUNT";
  const std::string before = from_environment(name);
  ::putenv(ours);
  prepare_environment(1);
  EXPECT_EQ(std::getenv(name), ours + std::strlen(name) + 1);
  prepare_environment(2);
  EXPECT_EQ(from_environment(name), "2");
  if (before.empty())
    ::unsetenv(name);
  else
    ::setenv(name, before.c_str(), 1);
}

TEST(DeviceSelection, fewer_threads_make_a_smaller_device) {
  DeviceOptions options;
  if (!testing::divides(testing::test_device())) GTEST_SKIP() << "needs a device that divides";
  options.threads = 1;
  Buffer survivor;
  {
    const auto device = Device::open(options);
    EXPECT_EQ(device->profile().compute_units, 1);
    survivor = upload<std::int32_t>(*device, {1});
    device->run(test_kernel(*device, "index3"), range1(1), {whole(survivor)});
    EXPECT_EQ(read<std::int32_t>(*device, whole(survivor))[0], 0);
  }
}

TEST(Handles, a_driver_that_finds_no_memory_late_is_a_memory_error) {
  EXPECT_EQ(message_of<MemoryError>([] { check(CL_MEM_OBJECT_ALLOCATION_FAILURE, "clEnqueueNDRangeKernel", "matmul"); }),
            "clEnqueueNDRangeKernel: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4); matmul");
  EXPECT_EQ(message_of<DeviceError>([] { check(CL_INVALID_VALUE, "clSetKernelArg"); }), "clSetKernelArg: CL_INVALID_VALUE (-30)");
}

}  // namespace
}  // namespace gemel::opencl
