// What a launch is told: whether its result leaves the caches.
#include "engine/kernel.h"

#include <gtest/gtest.h>

#include "engine/ops/catalog.h"
#include "engine/ops/ops.h"
#include "opencl/device.h"

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

}  // namespace
}  // namespace gemel
