// CLBlast's GEMM: what a profile tells of it, and what is measured of its two kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "opencl/clblast/clblast_gemm.h"
#include "opencl/program/tuning_table.h"
#include "tests/support/device/cache_folder.h"
#include "tests/support/device/test_device.h"
#include "tests/support/environment_variable.h"
#include "tests/support/operators/gemm_products.h"

namespace gemel::opencl {
namespace {

/// What a profile calls the product of two matrices of 33 rows and columns.
std::set<std::string> names_on(const std::shared_ptr<Device>& device) {
  const auto p = testing::product(33, 33, 33);
  const std::vector<float> zeros(33 * 33);
  testing::Operand a(*device, zeros), b(*device, zeros), c(*device, zeros);
  device->take_work();
  clblast_gemm(*device, p, {.a = a.region(), .b = b.region(), .c = c.region()});
  std::set<std::string> names;
  for (const TimedWork& work : device->take_work()) names.insert(work.name);
  return names;
}

TEST(Clblast, a_profile_says_that_a_small_product_is_computed_directly) {
  if (testing::test_device().profile().is_emulator) GTEST_SKIP() << "a minute on an emulator";
  EXPECT_EQ(names_on(Device::open({.profiling = Profiling::all})), std::set<std::string>{"clblast direct"});
}

/// A part of the device: to CLBlast that is another one, which alone has these parameters.
class ClblastOfAPart : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::is_full_run() || !testing::test_device().profile().is_cpu()) GTEST_SKIP() << "with --full, on a CPU: its kernels take long to compile";
  }
  testing::CacheFolder folder_;
};

TEST_F(ClblastOfAPart, a_profile_tells_what_is_copied) {
  const DeviceOptions options{.device = "0.0", .profiling = Profiling::all};
  const std::filesystem::path file = *tuning_file(Device::open(options)->profile());
  TuningTable table;
  table.clblast["GemmRoutine"] = {{"XGEMM_MIN_INDIRECT_SIZE", 1}};
  std::filesystem::create_directories(file.parent_path());
  testing::write_text(file, table.text());
  const std::set<std::string> names = names_on(Device::open(options));
  ASSERT_EQ(names.size(), 1u);
  EXPECT_TRUE(names.begin()->starts_with("clblast indirect, ") && names.begin()->ends_with(" bytes copied")) << *names.begin();
}

TEST_F(ClblastOfAPart, the_size_from_which_on_it_copies_is_measured) {
  const auto device = Device::open({.device = "0.0", .profiling = Profiling::all});
  const ClblastParameters found = tune_clblast(*device, "GemmRoutine", 128, 1);
  ASSERT_EQ(found.size(), 1u);
  const std::size_t least_side = found.at("XGEMM_MIN_INDIRECT_SIZE");
  EXPECT_TRUE((std::set<std::size_t>{64, 96, 128, 1 << 20}.contains(least_side))) << least_side;
  EXPECT_EQ(names_on(device), std::set<std::string>{"clblast direct"}) << "33 is below any of them: the parameter is in use";
}

}  // namespace
}  // namespace gemel::opencl
