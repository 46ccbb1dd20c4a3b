// Winograd's convolution on GPUs against the definition in double: images smaller than a tile, padding, few channels, several chunks; and where it is taken.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/device/counted_problem.h"
#include "engine/device/device_memory.h"
#include "engine/device/dispatch.h"
#include "engine/ops/ops.h"
#include "engine/reference/reference_interpreter.h"
#include "opencl/device/pretended_gpu.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

/// A convolution with a 3x3 window, or its input gradient.
struct WinogradCase {
  const OpDef* op;
  Specs inputs, outputs;
  Attributes attributes;

  Problem problem() const { return {*op, attributes, inputs, outputs}; }
};
WinogradCase winograd_case(const OpDef& op, const Shape& x, std::int64_t filters, const Axes& padding) {
  WinogradCase out{
      &op, {Spec{x, DType::float32}, f32({3, 3, x[3], filters})}, {}, {{"stride", Axes{1, 1}}, {"padding", padding}, {"dilation", Axes{1, 1}}, {"groups", 1}}};
  out.outputs = conv2d_def().infer(out.inputs, out.attributes);
  if (&op == &conv2d_def()) return out;
  out.attributes.set("shape", x);
  std::swap(out.inputs[0], out.outputs[0]);
  return out;
}
const std::array kBothDirections{&conv2d_def, &conv2d_input_gradient_def};

Values drawn_for(Session& session, const Specs& specs) {
  std::mt19937 random(7);
  Values out;
  for (const Spec& s : specs) {
    std::vector<double> numbers(at(s.elements()));
    for (double& v : numbers) v = static_cast<float>(std::uniform_real_distribution<double>(-1, 1)(random));
    out.push_back(session.tensor(s, std::span<const double>(numbers)));
  }
  return out;
}

std::vector<double> exact(const WinogradCase& c) {
  const auto reference = Session::reference();
  const Values values = drawn_for(*reference, c.inputs);
  const Value out = reference->empty(c.outputs[0]);
  c.op->reference(HostCall(*c.op, c.attributes, values, {&out, 1}));
  return read(out);
}

const Variant& variant_named(const OpDef& op, std::string_view name) { return *std::ranges::find(op.variants, name, &Variant::name); }

std::vector<double> computed(const WinogradCase& c, const std::shared_ptr<opencl::Device>& device, std::string_view variant = "group_winograd") {
  Session session(device);
  const Values values = drawn_for(session, c.inputs);
  const Value out = session.tensor(c.outputs[0], std::vector<std::byte>(at(c.outputs[0].bytes()), std::byte{0xFF}));
  std::vector<opencl::Region> in;
  for (const Value& v : values) in.push_back(region_of(v));
  const std::array written{region_of(out)};
  const Variant& v = variant_named(*c.op, variant);
  EXPECT_STREQ(declines(v, c.problem(), device->profile()), nullptr);
  launch(session, v, c.problem(), in, written);
  return read(out);
}

// Up to 40 terms of a few roundings each, which the transforms enlarge three to four times.
constexpr double kWinogradClose = 1e-5;

/// On an emulator each extent, padding and number of channels once.
bool is_short(std::int64_t height, std::int64_t padding, std::int64_t channels) {
  if (channels == 20) return height == 4 && padding == 1;
  return height == 4 ? padding == 0 || padding == 7 : padding == 2;
}

TEST(KernelsWinograd, of_images_smaller_than_a_tile_or_a_window_of_any_padding_is_right) {
  const std::vector<std::array<std::int64_t, 2>> extents{{1, 1}, {4, 4}, {5, 7}};
  for (const auto& op : kBothDirections)
    for (const auto& [height, width] : extents)
      for (const std::int64_t padding : {0, 1, 2, 7})
        for (const auto& [channels, filters] : {std::array<std::int64_t, 2>{3, 5}, {20, 20}}) {
          if (std::min(height, width) + 2 * padding < 3) continue;
          if (!does_long_work() && !is_short(height, padding, channels)) continue;
          const WinogradCase c = winograd_case(op(), Shape{2, height, width, channels}, filters, {padding, padding == 2 ? 1 : padding});
          EXPECT_LE(relative_error(computed(c, shared_test_device()), exact(c)), kWinogradClose)
              << c.op->name << " " << height << "x" << width << " padding " << padding << " channels " << channels;
        }
}

/// A GPU whose memory is so slow that only chunks that stay in its cache are fast.
constexpr const char* kSlowMemory = "gpu:units=1,gflops=100000,gbs=1,cache=";

TEST(Winograd, in_several_chunks_that_begin_and_end_inside_images_is_right) {
  if (test_device().profile().is_emulator) GTEST_SKIP() << "a CPU pretends";
  // 300 tiles of 3 images; 64 of them are a step, 128 rows of a product fill the device.
  for (const auto& op : kBothDirections)
    for (const auto& [channels, filters, cache] : {std::array<std::int64_t, 3>{20, 20, 1'800'000}, {7, 33, 1'600'000}}) {
      const WinogradCase c = winograd_case(op(), Shape{3, 40, 37, channels}, filters, {1, 1});
      const auto device = pretended_device((kSlowMemory + std::to_string(cache)).c_str(), {.ablation = {.variants = {{c.op->name, "group_winograd"}}}});
      EXPECT_EQ(count_problem(c.problem(), device->profile()).commands.size(), 7u) << "three chunks of products, transforms before, between and after them";
      EXPECT_LE(relative_error(computed(c, device), exact(c)), kWinogradClose) << c.op->name << " " << channels;
      const Variant& v = variant_named(*c.op, "group_winograd");
      EXPECT_LE(2 * v.workspace_bytes(c.problem(), device->profile()), cache + 1024) << "and the rest of sections";
    }
}

// A sum over 256 channels in one register rounds as often as one over all 2 304 terms, which tiles without Winograd compute.
TEST(Winograd, on_gpus_rounds_little_more_than_tiles_of_all_terms) {
  if (!does_long_work()) GTEST_SKIP() << "half a minute on an emulator";
  const WinogradCase c = winograd_case(conv2d_def(), Shape{1, 32, 32, 256}, 32, {1, 1});
  const std::vector<double> expected = exact(c);
  const double plain = roundings(computed(c, shared_test_device(), "group_tiles"), expected), own = roundings(computed(c, shared_test_device()), expected);
  EXPECT_LE(own, 3 * plain) << own << " and " << plain;
}

opencl::DeviceProfile profile_of_gpu(const char* what) {
  opencl::DeviceProfile out{.max_allocation_bytes = std::int64_t{8} << 30, .max_group_size = 1024, .has_fma = true};
  pretend(out, what);
  return out;
}

/// Height and width, channels and filters of a layer of VGG-16.
struct LayerOfVgg {
  std::int64_t edge, channels, filters;
};
constexpr LayerOfVgg kLargeLayersOfVgg[] = {{56, 256, 256}, {28, 512, 512}};

TEST(Winograd, is_taken_where_a_gpu_is_counted_to_compute_it_far_faster) {
  const opencl::DeviceProfile h100 = profile_of_gpu("gpu:name=h100");
  const auto chosen = [&](const OpDef& op, std::int64_t images, const LayerOfVgg& l) {
    const WinogradCase c = winograd_case(op, Shape{images, l.edge, l.edge, l.channels}, l.filters, {1, 1});
    return std::string_view(choose(c.problem(), h100).name);
  };
  for (const auto& op : kBothDirections) {
    for (const LayerOfVgg& l : kLargeLayersOfVgg) EXPECT_EQ(chosen(op(), 32, l), "group_winograd") << op().name << " " << l.edge << " " << l.channels;
    EXPECT_EQ(chosen(op(), 32, {224, 64, 64}), "group_tiles") << "64 channels are little work beside their transforms";
    EXPECT_EQ(chosen(op(), 1, {8, 32, 32}), "group_tiles") << "launches take longer";
  }
  EXPECT_EQ(chosen(conv2d_def(), 32, {224, 3, 64}), "group_tiles") << "three channels are little work beside the transform of 64";
}

TEST(Winograd, keeps_its_chunks_in_the_last_cache_where_memory_is_slow) {
  const auto workspace_on = [](const char* gpu) {
    const WinogradCase c = winograd_case(conv2d_def(), Shape{32, 56, 56, 128}, 256, {1, 1});
    return variant_named(conv2d_def(), "group_winograd").workspace_bytes(c.problem(), profile_of_gpu(gpu));
  };
  EXPECT_LE(2 * workspace_on("gpu:name=rtx4090"), 72 << 20);
  EXPECT_GT(workspace_on("gpu:name=h100"), 50 << 20) << "there a launch takes as long as such a chunk saves";
  EXPECT_LE(workspace_on("gpu:name=h100"), 270 << 20);
}

TEST(Winograd, tells_why_it_declines) {
  const opencl::DeviceProfile h100 = profile_of_gpu("gpu:name=h100");
  const auto why = [&](const Shape& x, const Shape& w, const Attributes& attributes, const opencl::DeviceProfile& profile) {
    const Specs in{Spec{x, DType::float32}, Spec{w, DType::float32}}, out = conv2d_def().infer(in, attributes);
    const char* answer = declines(variant_named(conv2d_def(), "group_winograd"), {conv2d_def(), attributes, in, out}, profile);
    return std::string(answer ? answer : "");
  };
  const auto attributes = [](std::int64_t stride, std::int64_t dilation, std::int64_t groups) {
    return Attributes{{"stride", Axes{stride, stride}}, {"padding", Axes{1, 1}}, {"dilation", Axes{dilation, dilation}}, {"groups", groups}};
  };
  const Shape x{2, 8, 8, 4};
  const std::string window = "its window is not 3x3 with stride and dilation 1";
  EXPECT_EQ(why(x, {3, 3, 4, 6}, attributes(1, 1, 1), h100), "");
  EXPECT_EQ(why(x, {3, 3, 4, 6}, attributes(2, 1, 1), h100), window);
  EXPECT_EQ(why(x, {3, 3, 4, 6}, attributes(1, 2, 1), h100), window);
  EXPECT_EQ(why(x, {3, 1, 4, 6}, attributes(1, 1, 1), h100), window);
  EXPECT_EQ(why(x, {3, 3, 2, 6}, attributes(1, 1, 2), h100), "it has several groups");
  EXPECT_EQ(why({0, 8, 8, 4}, {3, 3, 4, 6}, attributes(1, 1, 1), h100), "an extent is 0");
  EXPECT_EQ(why({1 << 12, 128, 128, 32}, {3, 3, 32, 6}, attributes(1, 1, 1), h100), "a tensor has about 2^31 elements or more");
  opencl::DeviceProfile small = h100;
  small.max_allocation_bytes = 1 << 10;
  EXPECT_EQ(why(x, {3, 3, 4, 6}, attributes(1, 1, 1), small), "its workspace exceeds the largest allocation");
}

}  // namespace
}  // namespace gemel::testing
