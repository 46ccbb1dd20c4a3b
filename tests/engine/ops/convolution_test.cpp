// Convolution where the generated samples are too small to go: several blocks of rows, and long sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string_view>

#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/device/device_memory.h"
#include "engine/device/dispatch.h"
#include "engine/ops/ops.h"
#include "engine/reference/reference_interpreter.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

std::vector<double> drawn(std::int64_t elements) {
  std::mt19937 random(7);
  std::vector<double> out(at(elements));
  for (double& v : out) v = static_cast<float>(std::uniform_real_distribution<double>(-1, 1)(random));
  return out;
}

/// The result of one variant on inputs drawn for these specs.
std::vector<double> run_variant(const std::shared_ptr<opencl::Device>& device, const OpDef& op, const Variant& variant, const Specs& in,
                                const Attributes& attributes) {
  Session session(device);
  const Specs out_specs = op.infer(in, attributes);
  const Value out = session.empty(out_specs[0]);
  Values values;
  std::vector<opencl::Region> regions;
  for (const Spec& s : in) {
    const auto numbers = drawn(s.elements());
    values.push_back(session.tensor(s, std::span<const double>(numbers)));
    regions.push_back(region_of(values.back()));
  }
  const std::array out_regions{region_of(out)};
  launch(session, variant, {op, attributes, in, out_specs}, regions, out_regions);
  return read(out);
}

/// @param others  the variants that take it on a CPU, besides the direct one; empty: some, and a GPU's tiles among them
void expect_like_direct(const OpDef& op, const Specs& in, const Attributes& attributes, const std::vector<std::string>& others) {
  if (!does_long_work()) GTEST_SKIP() << "half a minute on an emulator";
  // 576 terms, or 8 192 pixels added in blocks, of float32 products: a few 1e-7 of the largest element.
  const auto expected = run_variant(shared_test_device(), op, op.variants.back(), in, attributes);
  const Specs out = op.infer(in, attributes);
  for (const auto& device : {shared_test_device(), shared_narrow_device()}) {
    std::vector<std::string> compared;
    for (const Variant& v : op.variants) {
      if (&v == &op.variants.back() || declines(v, {op, attributes, in, out}, device->profile())) continue;
      EXPECT_LE(relative_error(run_variant(device, op, v, in, attributes), expected), 1e-5) << v.name;
      compared.push_back(v.name);
    }
    if (device->profile().is_cpu() && !device->profile().is_emulator) {
      if (others.empty())
        EXPECT_EQ(std::ranges::count(compared, "group_tiles"), 1);
      else
        EXPECT_EQ(compared, others);
    }
  }
}

const std::vector<std::string> kDense{"winograd", "tiles", "gemm", "group_tiles", "group_winograd"}, kWeights{"winograd", "tiles", "gemm", "group_tiles"},
    kDepthwise{"depthwise_rows", "depthwise_window", "depthwise"};

// 8 192 rows of 576 columns take 18 MiB: a second block begins inside the last image.
const Spec kX = f32({2, 64, 64, 64}), kW = f32({3, 3, 64, 32}), kY = f32({2, 64, 64, 32});
Attributes padded(const Shape* shape = nullptr) {
  Attributes a{{"stride", Axes{1, 1}}, {"padding", Axes{1, 1}}, {"dilation", Axes{1, 1}}, {"groups", 1}};
  if (shape) a.set("shape", *shape);
  return a;
}

TEST(Convolution, forward_in_several_blocks_gives_the_direct_result) { expect_like_direct(conv2d_def(), {kX, kW}, padded(), kDense); }

TEST(Convolution, input_gradient_in_several_blocks_gives_the_direct_result) {
  expect_like_direct(conv2d_input_gradient_def(), {kY, kW}, padded(&kX.shape), kDense);
}

TEST(Convolution, weight_gradient_in_several_blocks_gives_the_direct_result) {
  expect_like_direct(conv2d_weight_gradient_def(), {kY, kX}, padded(&kW.shape), kWeights);
}

const std::vector<std::string> kAlong{"rows", "tiles", "gemm", "group_tiles"};

// Tiles that hang over the end of a row, two chunks of filters that overlap, bands that end inside an image.
TEST(Convolution, forward_to_few_filters_along_rows_gives_the_direct_result) {
  const Attributes plain{{"stride", Axes{1, 1}}, {"padding", Axes{0, 0}}, {"dilation", Axes{1, 1}}, {"groups", 1}};
  const Attributes spread{{"stride", Axes{2, 3}}, {"padding", Axes{2, 4}}, {"dilation", Axes{1, 2}}, {"groups", 1}};
  for (const std::int64_t filters : {6, 27}) {
    expect_like_direct(conv2d_def(), {f32({5, 32, 32, 3}), f32({5, 5, 3, filters})}, plain, kAlong);
    expect_like_direct(conv2d_def(), {f32({3, 33, 95, 2}), f32({5, 3, 2, filters})}, spread, kAlong);
  }
}

// Sums of parts of the pixels, each of them a product of a batch: of the first, two a unit; of the second, which no such number divides, none.
TEST(Convolution, weight_gradient_of_single_taps_in_parts_gives_the_direct_result) {
  const Spec w = f32({1, 1, 64, 40});
  Attributes a{{"stride", Axes{1, 1}}, {"padding", Axes{0, 0}}, {"dilation", Axes{1, 1}}, {"groups", 1}, {"shape", w.shape}};
  for (const Shape& pixels : {Shape{2 * test_device().profile().compute_units, 32, 32}, Shape{1, 63, 65}})
    expect_like_direct(conv2d_weight_gradient_def(), {f32({pixels[0], pixels[1], pixels[2], 40}), f32({pixels[0], pixels[1], pixels[2], 64})}, a, kAlong);
}

/// What a GPU's tiles do that the samples are too small for: strides in phases, of which one has no tap; several tiles along both axes; channels that are no
/// multiple of 4, or of a tile's depth.
TEST(Convolution, group_tiles_of_strides_and_odd_channels_give_the_direct_result) {
  for (const std::int64_t channels : {36, 5})
    for (const auto& [window, stride] : {std::pair{3, 2}, std::pair{1, 2}, std::pair{7, 3}}) {
      const Spec x = f32({3, 23, 21, channels}), w = f32({window, window, channels, 140});
      Attributes a{{"stride", Axes{stride, stride}}, {"padding", Axes{window / 2, window / 2}}, {"dilation", Axes{1, 1}}, {"groups", 1}};
      const Spec y = conv2d_def().infer({x, w}, a)[0];
      expect_like_direct(conv2d_def(), {x, w}, a, {});
      a.set("shape", x.shape);
      expect_like_direct(conv2d_input_gradient_def(), {y, w}, a, {});
      a.set("shape", w.shape);
      expect_like_direct(conv2d_weight_gradient_def(), {y, x}, a, {});
    }
}

/// All three directions of a 5x5 depthwise convolution of x.
void expect_depthwise_like_direct(const Spec& x, std::int64_t stride) {
  const std::int64_t channels = x.shape[3];
  const Spec w = f32({5, 5, 1, channels});
  Attributes a{{"stride", Axes{stride, stride}}, {"padding", Axes{2, 2}}, {"dilation", Axes{1, 1}}, {"groups", channels}};
  const Spec y = conv2d_def().infer({x, w}, a)[0];
  expect_like_direct(conv2d_def(), {x, w}, a, kDepthwise);
  a.set("shape", x.shape);
  expect_like_direct(conv2d_input_gradient_def(), {y, w}, a, stride == 1 ? kDepthwise : std::vector<std::string>{"depthwise_rows", "depthwise"});
  a.set("shape", w.shape);
  expect_like_direct(conv2d_weight_gradient_def(), {y, x}, a, kDepthwise);
}

// Several groups along the rows, and, of the smaller one's weight gradient on a device of two units, along the channels as well.
TEST(Convolution, depthwise_in_several_groups_gives_the_direct_result) {
  expect_depthwise_like_direct(f32({2, 37, 35, 240}), 2);
  expect_depthwise_like_direct(f32({1, 33, 33, 240}), 1);
}

// A row of 13 pixels, or of 27, fits 14 at a time best; so many channels are not asked for ahead.
TEST(Convolution, depthwise_of_short_rows_and_many_channels_gives_the_direct_result) {
  expect_depthwise_like_direct(f32({2, 9, 13, 528}), 1);
  expect_depthwise_like_direct(f32({1, 9, 27, 528}), 2);
}

// Two groups of channels a unit: the weight gradient of none has partial sums.
TEST(Convolution, depthwise_of_enough_channels_for_all_units_gives_the_direct_result) {
  const opencl::DeviceProfile& profile = test_device().profile();
  if (profile.compute_units > 32) GTEST_SKIP() << "it would take more than 8192 channels";
  const std::int64_t channels = 256 * profile.compute_units;
  const Spec x = f32({2, 9, 7, channels}), w = f32({5, 5, 1, channels});
  expect_depthwise_like_direct(x, 1);
  const OpDef& op = conv2d_weight_gradient_def();
  const Attributes a{{"stride", Axes{1, 1}}, {"padding", Axes{2, 2}}, {"dilation", Axes{1, 1}}, {"groups", channels}, {"shape", w.shape}};
  const Specs in{x, x}, out{w};
  const auto rows = std::ranges::find(op.variants, std::string_view("depthwise_rows"), &Variant::name);
  ASSERT_NE(rows, op.variants.end());
  EXPECT_EQ(rows->workspace_bytes({op, a, in, out}, profile), 0);
}

// 7 396 tiles of 4x4: more than are transformed at a time.
TEST(Convolution, winograd_in_several_chunks_gives_the_direct_result) {
  if (test_device().profile().is_emulator) GTEST_SKIP() << "llvmpipe ends a loop after 65 535 turns, and the direct one has 117 992";
  const Spec x = f32({1, 344, 343, 16}), w = f32({3, 3, 16, 8}), y = f32({1, 344, 343, 8});
  expect_like_direct(conv2d_def(), {x, w}, padded(), kDense);
  expect_like_direct(conv2d_input_gradient_def(), {f32({1, 344, 343, 16}), f32({3, 3, 8, 16})}, padded(&y.shape), kDense);
  expect_like_direct(conv2d_weight_gradient_def(), {y, x}, padded(&w.shape), kWeights);
}

// 136 channels are summed in two whole runs and a part; 81 tiles of 4x4 fill a group and a part, whose last register tile is a part too,
// and so do 40 filters.
TEST(Convolution, winograd_in_several_runs_of_channels_gives_the_direct_result) {
  const Spec x = f32({1, 34, 35, 136}), w = f32({3, 3, 136, 40}), y = f32({1, 34, 35, 40});
  expect_like_direct(conv2d_def(), {x, w}, padded(), kDense);
  expect_like_direct(conv2d_input_gradient_def(), {f32({1, 34, 35, 136}), f32({3, 3, 40, 136})}, padded(&y.shape), kDense);
  expect_like_direct(conv2d_weight_gradient_def(), {y, x}, padded(&w.shape), kWeights);
}

// Its transforms enlarge the rounding of what registers sum, so their sums are short: 11 roundings with sums over 32 channels, 13.4 over 64.
TEST(Convolution, winograd_rounds_as_little_as_short_sums_allow) {
  if (!does_long_work()) GTEST_SKIP() << "half a minute on an emulator";
  const OpDef& op = conv2d_def();
  const Attributes attributes = padded();
  const Specs in{f32({1, 32, 32, 256}), f32({3, 3, 256, 32})};
  const auto reference = Session::reference();
  Values values;
  for (const Spec& s : in) values.push_back(reference->tensor(s, std::span<const double>(drawn(s.elements()))));
  const Value exact = reference->empty(op.infer(in, attributes)[0]);
  op.reference(HostCall(op, attributes, values, {&exact, 1}));
  const auto winograd = std::ranges::find(op.variants, std::string_view("winograd"), &Variant::name);
  ASSERT_NE(winograd, op.variants.end());
  for (const auto& device : {shared_test_device(), shared_narrow_device()}) {
    if (!device->profile().is_cpu() || device->profile().is_emulator) GTEST_SKIP() << "for CPUs";
    ASSERT_STREQ(declines(*winograd, {op, attributes, in, op.infer(in, attributes)}, device->profile()), nullptr);
    EXPECT_LE(roundings(run_variant(device, op, *winograd, in, attributes), read(exact)), 12);
  }
}

}  // namespace
}  // namespace gemel::testing
