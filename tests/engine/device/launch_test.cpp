// What a launch is told: whether its result leaves the caches.
#include "engine/device/launch.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "engine/base/error.h"
#include "engine/device/device_interpreter.h"
#include "engine/device/prepared_launch.h"
#include "engine/ops/ops.h"
#include "opencl/device/device.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"

namespace gemel {
namespace {

using opencl::Region;

/// Whether the result of x + y, 256 floats each, leaves caches of so many bytes.
bool leaves(std::int64_t cache_bytes, bool same_inputs, bool in_place) {
  const auto device = opencl::Device::open({.cache_bytes = cache_bytes});
  const Specs in{f32({256}), f32({256})}, out{f32({256})};
  const Attributes none;
  const Problem problem{add_def(), none, in, out};
  const auto memory = device->memory().allocate(4096, "a test");
  const Region x{memory.block(), 0, 1024}, y{memory.block(), 1024, 1024}, z{memory.block(), 2048, 1024};
  const Region inputs[]{x, same_inputs ? x : y}, outputs[]{in_place ? x : z};
  return Launch({*device, {}}, problem, inputs, outputs, {}).leaves_the_caches();
}

TEST(DeviceLaunch, a_result_leaves_the_caches_where_it_and_the_inputs_exceed_them) {
  EXPECT_TRUE(leaves(3071, false, false));
  EXPECT_FALSE(leaves(3072, false, false));
}

TEST(DeviceLaunch, an_input_given_twice_counts_once) {
  EXPECT_TRUE(leaves(2047, true, false));
  EXPECT_FALSE(leaves(2048, true, false));
}

TEST(DeviceLaunch, what_replaces_an_input_stays_and_so_does_all_where_the_caches_are_unknown) {
  EXPECT_FALSE(leaves(1, false, true));
  EXPECT_FALSE(leaves(0, false, false));
}

TEST(DeviceLaunch, what_is_written_overlaps_no_other_operand) {
  Session& session = testing::test_session();
  const Spec spec = f32({1024});
  const Value memory = session.tensor(f32({4096}), std::vector<double>(4096, 1));
  PreparedLaunch add(launch_target(session), add_def(), {}, {spec, spec}, {spec});
  const auto run = [&](std::int64_t x, std::int64_t y, std::int64_t z) {
    const Value in[]{memory.view(spec, x), memory.view(spec, y)}, out[]{memory.view(spec, z)};
    add.run(in, out);
  };
  const std::string refused = testing::message_of<InternalError>([&] { run(0, 1024, 512); });
  EXPECT_TRUE(refused.starts_with("add: operand 2 at ") && refused.find(", of 4096 bytes, is written and overlaps operand 0 at ") != std::string::npos)
      << refused;
  run(0, 512, 2048);  // what is only read may overlap
  run(0, 1024, 0);
  EXPECT_EQ(read(memory.view(spec, 0)), std::vector<double>(1024, 2));
}

TEST(DeviceLaunch, a_view_shorter_than_its_memory_does_not_give_it_to_the_result) {
  Session& session = testing::test_session();
  std::vector<double> expected(1024, 1);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += static_cast<double>(i % 512);
  std::vector<double> numbers(1024);
  std::iota(numbers.begin(), numbers.end(), 0.0);
  Value x = session.tensor(f32({1024}), numbers);
  Value part = x.view(f32({512}), 0);
  x = {};
  EXPECT_EQ(read(add(std::move(part), full(session, f32({2, 512}), 1))), expected);
}

}  // namespace
}  // namespace gemel
