// Problems with more rows than drivers take groups along a second dimension: every variant against the reference.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/device/device_memory.h"
#include "engine/device/dispatch.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

constexpr std::int64_t kMany = opencl::kMostGroups + 500, kManyPlaces = 16 * opencl::kMostGroups + 500;  // 16: work-items of a group on CPUs
// A few float32 operations an element, relative to the largest.
constexpr double kClose = 1e-5;

struct Many {
  const OpDef& op;
  Sample sample;
};

void expect_every_variant_right(const Many& m) {
  Session& session = test_session();
  const auto reference = Session::reference();
  const InputNumbers x = numbers_for(m.op, m.sample);
  const Values expected = apply(*reference, m.op, inputs_in(*reference, m.op, m.sample, x, Wanting::no), m.sample.attributes);
  const Values in = inputs_in(session, m.op, m.sample, x, Wanting::no);
  const Specs specs = m.op.infer(m.sample.inputs, m.sample.attributes);
  const Problem problem{m.op, m.sample.attributes, m.sample.inputs, specs};
  for (const Variant& variant : m.op.variants) {
    if (declines(variant, problem, test_device().profile())) continue;
    Values out;
    for (const Spec& s : specs) out.push_back(session.tensor(s, std::vector<double>(at(s.elements()), 7.0)));
    std::vector<opencl::Region> regions, written;
    for (const Value& v : in) regions.push_back(region_of(v));
    for (const Value& v : out) written.push_back(region_of(v));
    launch(session, variant, problem, regions, written);
    for (std::size_t i = 0; i < out.size(); ++i)
      EXPECT_LE(relative_error(read(out[i]), read(expected[i])), kClose) << m.op.name << ", " << variant.name << ", output " << i;
  }
}

TEST(DeviceLaunchLimits, more_rows_than_groups_along_a_dimension) {
  const Attributes over_last{{"axes", Axes{-1}}, {"keep", false}}, over_middle{{"axes", Axes{1}}, {"keep", false}};
  const Attributes drawn{{"shape", Shape{kMany, 3}}, {"low", 0.0}, {"high", 1.0}, {"stream", std::int64_t{5}}, {"sample_axis", std::int64_t{0}}};
  for (const Many& m : {Many{add_def(), {{f32({kMany, 2}), f32({kMany, 1})}}}, Many{sum_def(), {{f32({kMany, 3})}, over_last}},
                        Many{sum_def(), {{f32({kMany, 2, 2})}, over_middle}}, Many{random_uniform_def(), {{i64({4})}, drawn, {integers(0, 9)}}},
                        Many{transpose_def(), {{f32({kMany, 2, 3})}, {{"order", Axes{0, 2, 1}}}}},
                        Many{scatter_add_def(), {{f32({kMany, 2}), i32({3}), f32({kMany, 3})}, {{"axis", 1}}, {Fill{}, integers(0, 2), Fill{}}}}})
    expect_every_variant_right(m);
}

TEST(LaunchLimits, more_places_than_groups_along_a_dimension) {
  if (!does_long_work()) GTEST_SKIP() << "minutes on an emulator";
  const Attributes over_two{{"axes", Axes{1, 3}}, {"keep", false}}, first{{"axis", 0}}, last{{"axis", 1}}, classes{{"classes", 3}, {"dtype", DType::float32}};
  const Attributes attended{{"scale", 0.5}, {"causal", false}, {"rate", 0.0}, {"stream", std::int64_t{1}}};
  for (const Many& m :
       {Many{sum_def(), {{f32({kMany, 2, 2, 3})}, over_two}}, Many{softmax_def(), {{f32({2, kMany})}, first}},
        Many{softmax_def(), {{f32({kMany, 2, 3})}, last}}, Many{argmax_def(), {{f32({kManyPlaces, 2})}, last}},
        Many{one_hot_def(), {{i64({kMany})}, classes, {integers(0, 3)}}}, Many{gather_def(), {{f32({kMany, 3}), i32({2})}, last, {Fill{}, integers(0, 3)}}},
        Many{gather_def(), {{f32({5}), i64({kManyPlaces})}, first, {Fill{}, integers(0, 5)}}},
        Many{gather_def(), {{f32({1000, 10}), i32({1})}, last, {Fill{}, integers(0, 10)}}},
        Many{sum_rows_def(), {{i64({kMany}), f32({kMany, 2})}, {}, {integers(0, 40000), integers(-9, 9)}}},
        Many{attention_def(), {{f32({kMany, 1, 1, 2}), f32({kMany, 2, 1, 2}), f32({kMany, 2, 1, 1}), f32({1, 1, 1, 1})}, attended}}})
    expect_every_variant_right(m);
}

// NVIDIA's driver takes 64 work-items along the third dimension.
TEST(LaunchLimits, groups_of_places_keep_to_what_drivers_take) {
  const opencl::DeviceProfile gpu{.kind = opencl::DeviceKind::gpu, .compute_units = 16, .max_group_size = 1024};
  const auto local_of = [](const opencl::Range& r) { return r.local; };
  using Extents = std::array<std::int64_t, 3>;
  EXPECT_EQ(local_of(range_of_places({1, 1, 1000}, gpu)), (Extents{2, 1, 64}));
  EXPECT_EQ(local_of(range_of_places({3, 5, 1000}, gpu)), (Extents{4, 8, 4}));
  EXPECT_EQ(local_of(range_of_pixels({0, 4, 4}, gpu)), (Extents{32, 1, 1}));
  EXPECT_EQ(range_of_places({2, 1, std::int64_t{1} << 23}, gpu).global[2], opencl::kMostGroups * 64);
  opencl::DeviceProfile small = gpu;
  small.max_group_size = 64;
  EXPECT_EQ(local_of(range_of_places({1, 1000, 1}, small)), (Extents{1, 64, 1}));
}

TEST(DeviceLaunchLimits, long_rows_and_many_indices) {
  const std::int64_t n = 70000;
  for (const Many& m :
       {Many{softmax_def(), {{f32({2, n})}, {{"axis", 1}}}}, Many{softmax_def(), {{f32({n, 2})}, {{"axis", 0}}}},
        Many{cross_entropy_def(), {{f32({2, n}), i64({2})}, {{"smoothing", 0.1}, {"mean", true}, {"labelled_only", false}}, {Fill{}, integers(0, 70000)}}},
        Many{scatter_add_def(), {{f32({5, 2}), i32({n}), f32({n, 2})}, {{"axis", 0}}, {Fill{}, integers(0, 5), integers(-9, 9)}}}})
    expect_every_variant_right(m);
}

}  // namespace
}  // namespace gemel::testing
