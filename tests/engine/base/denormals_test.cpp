// Subnormal numbers are kept, or taken for 0 where that is asked for: in kernels, on the host, and in the threads that it starts.
#include "engine/base/denormals.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "engine/ops/ops.h"
#include "opencl/device_profile.h"
#include "parallel/collectives/host_reduce.h"
#include "tests/support/device/test_device.h"

namespace gemel::testing {
namespace {

constexpr float kSubnormal = 1e-40f;

/// Sums of two ranks, by the arithmetic of collectives.
std::vector<float> sums_of_two() {
  std::vector<float> to(37, kSubnormal);
  const std::vector<float> from = to;
  parallel::reduce_into({reinterpret_cast<std::byte*>(to.data()), static_cast<std::int64_t>(to.size()), DType::float32},
                        reinterpret_cast<const std::byte*>(from.data()), parallel::Reduction::sum);
  return to;
}

/// In a thread that the flushing one starts, so that no other test's numbers change.
std::vector<float> sums_in_a_thread_of(Denormals denormals) {
  std::vector<float> sums;
  std::jthread([&] {
    set_denormals(denormals);
    std::jthread([&] { sums = sums_of_two(); }).join();
  }).join();
  return sums;
}

TEST(Denormals, sums_of_ranks_keep_or_flush_them_in_threads_that_are_started_later) {
  for (const float sum : sums_in_a_thread_of(Denormals::keep)) EXPECT_EQ(sum, 2 * kSubnormal);
#if defined(__SSE2__) || defined(__aarch64__)
  for (const float sum : sums_in_a_thread_of(Denormals::flush)) EXPECT_EQ(sum, 0);
#endif
}

TEST(Denormals, a_thread_that_keeps_them_again_does) {
  std::vector<float> sums;
  std::jthread([&] {
    set_denormals(Denormals::flush);
    set_denormals(Denormals::keep);
    sums = sums_of_two();
  }).join();
  EXPECT_EQ(sums[0], 2 * kSubnormal);
}

/// x / 2 and 2 x on a device that is opened so.
std::vector<double> scaled_on_a_device_that(Denormals denormals, double x) {
  Session session(opencl::Device::open({.denormals = denormals}), 1);
  const Value v = full(session, f32({64}), x);
  std::vector<double> out = read(v * 0.5);
  out.push_back(read(v * 2.0)[0]);
  return out;
}

TEST(Denormals, kernels_keep_them_unless_told_to_flush) {
  if (!test_device().profile().is_pocl()) GTEST_SKIP() << "a driver may keep or flush them as it likes; PoCL does as it is told";
  const double least_normal = 0x1p-126;
  for (const double x : scaled_on_a_device_that(Denormals::keep, least_normal)) EXPECT_GT(x, 0);
  const std::vector<double> flushed = scaled_on_a_device_that(Denormals::flush, least_normal);
  EXPECT_EQ(flushed.front(), 0) << "a result";
  EXPECT_EQ(flushed.back(), 2 * least_normal);
  EXPECT_EQ(scaled_on_a_device_that(Denormals::flush, 0x1p-127).back(), 0) << "an operand";
}

TEST(Denormals, clblast_builds_its_programs_either_way) {
  for (const Denormals denormals : {Denormals::flush, Denormals::keep}) {
    Session session(opencl::Device::open({.gemm = opencl::GemmChoice::clblast, .denormals = denormals}), 1);
    EXPECT_EQ(read(matmul(full(session, f32({2, 3}), 2), full(session, f32({3, 2}), 4))), std::vector<double>(4, 24));
  }
}

}  // namespace
}  // namespace gemel::testing
