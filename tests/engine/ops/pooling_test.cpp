// What the generated tests of the records cannot see: ties, and extents against known values.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/device/device_interpreter.h"
#include "engine/device/device_memory.h"
#include "engine/device/dispatch.h"
#include "engine/device/launch.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "opencl/device/recording.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

Value tensor(Session& session, const Shape& shape, const std::vector<double>& numbers) { return session.tensor({shape}, std::span<const double>(numbers)); }

TEST(Pooling, first_of_equal_maxima_takes_the_gradient) {
  Session session(shared_test_device());
  const Value x = leaf(tensor(session, {1, 2, 4, 1}, {1, 3, 0, 0, 3, 3, 0, 0}));
  const Values dx = gradient({max_pool2d(x, {})}, {x});
  EXPECT_EQ(read(dx[0]), (std::vector<double>{0, 1, 1, 0, 0, 0, 0, 0}));
}

TEST(Pooling, the_first_tap_inside_the_image_wins_where_all_are_minus_infinity) {
  const double low = -std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto reference = Session::reference();
  Session device(shared_test_device());
  for (Session* session : {reference.get(), &device})
    for (std::int64_t channels : {1, 16}) {
      const auto x_of = [&](const std::vector<double>& image) {
        std::vector<double> x;
        for (double v : image) x.insert(x.end(), at(channels), v);
        return leaf(tensor(*session, {1, 2, 2, channels}, x));
      };
      const Value x = x_of({low, low, low, low}), y = max_pool2d(x, {.kernel = {3, 3}, .stride = {3, 3}, .padding = {1, 1}});
      EXPECT_EQ(read(y)[0], low);
      EXPECT_EQ(read(sum(gradient({y}, {x})[0], {3})), (std::vector<double>{static_cast<double>(channels), 0, 0, 0}));
      const Value mixed = x_of({low, nan, 5, low});
      EXPECT_EQ(read(sum(gradient({max_pool2d(mixed, {})}, {mixed})[0], {3})), (std::vector<double>{0, static_cast<double>(channels), 0, 0}));
    }
}

TEST(Pooling, max_keeps_what_is_not_a_number) {
  Session session(shared_test_device());
  const Value x = tensor(session, {1, 1, 2, 1}, {std::numeric_limits<double>::quiet_NaN(), 5});
  EXPECT_TRUE(std::isnan(read(max_pool2d(x, {.kernel = {1, 2}}))[0]));
}

TEST(Pooling, ceil_mode_counts_a_window_only_if_it_starts_before_the_far_padding) {
  const auto session = Session::reference();
  const auto extent = [&](std::int64_t h, const Window& v) { return max_pool2d(session->empty({Shape{1, h, 8, 1}}), v).shape()[1]; };
  EXPECT_EQ(extent(6, {.kernel = {3, 3}, .stride = {2, 2}}), 2);
  EXPECT_EQ(extent(6, {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true}), 3);
  EXPECT_EQ(extent(5, {.padding = {1, 1}, .ceil_mode = true}), 3);  // a fourth would start at row 5
  EXPECT_EQ(extent(2, {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true}), 1);
}

TEST(Pooling, average_divides_by_the_window_or_by_what_lies_in_the_image) {
  const auto session = Session::reference();
  const Value x = tensor(*session, {1, 1, 3, 1}, {1, 2, 3});
  const Window v{.kernel = {1, 2}, .stride = {1, 2}, .padding = {0, 1}};
  EXPECT_EQ(read(avg_pool2d(x, v)), (std::vector<double>{0.5, 2.5}));
  Window only_image = v;
  only_image.count_padding = false;
  EXPECT_EQ(read(avg_pool2d(x, only_image)), (std::vector<double>{1, 2.5}));
}

TEST(Pooling, adaptive_windows_overlap_where_the_extents_do_not_divide) {
  const auto session = Session::reference();
  const Value x = tensor(*session, {1, 1, 5, 1}, {1, 2, 3, 4, 6});
  EXPECT_EQ(read(adaptive_avg_pool2d(x, {1, 2})), (std::vector<double>{2, 13.0 / 3}));
}

/// Every variant that the device has for a problem, and what the reference makes of it.
void expect_every_variant_right(const OpDef& op, const Sample& sample) {
  const auto reference = Session::reference();
  const InputNumbers numbers = numbers_for(op, sample);
  const Values expected = apply(*reference, op, inputs_in(*reference, op, sample, numbers, Wanting::no), sample.attributes);
  const Values in = inputs_in(test_session(), op, sample, numbers, Wanting::no);
  const Specs specs = op.infer(sample.inputs, sample.attributes);
  const Problem problem{op, sample.attributes, sample.inputs, specs};
  for (const Variant& variant : op.variants) {
    if (declines(variant, problem, test_device().profile())) continue;
    Values out;
    std::vector<opencl::Region> from, to;
    for (const Spec& s : specs) out.push_back(test_session().empty(s));
    for (const Value& v : in) from.push_back(region_of(v));
    for (const Value& v : out) to.push_back(region_of(v));
    launch(test_session(), variant, problem, from, to);
    for (std::size_t o = 0; o < out.size(); ++o)
      EXPECT_LE(relative_error(read(out[o]), read(expected[o])), 1e-5) << op.name << ", " << variant.name << ": sums of 3 136 terms in float32";
  }
}

TEST(DevicePooling, of_large_windows_over_few_channels_is_right) {
  const Shape x{1, 57, 112, 3}, y{1, 1, 2, 3};
  for (const bool is_average : {false, true}) {
    Attributes a{{"kernel", Axes{56, 56}}, {"stride", Axes{56, 56}}, {"padding", Axes{0, 0}}, {"ceil_mode", false}};
    if (is_average)
      a.set("count_padding", true);
    else
      a.set("dilation", Axes{1, 1});
    expect_every_variant_right(is_average ? avg_pool2d_def() : max_pool2d_def(), {{{x}}, a, {distinct()}});
    a.set("shape", x);
    if (is_average)
      expect_every_variant_right(avg_pool2d_gradient_def(), {{{y}}, a});
    else
      expect_every_variant_right(max_pool2d_gradient_def(), {{{y}, {y, DType::int32}}, a, {Fill{}, integers(0, 56 * 56)}});
  }
}

/// The kernel that pools images of that height and width.
const opencl::Kernel* kernel_for(std::int64_t height, std::int64_t width, const Window& v) {
  const Attributes a{{"kernel", Axes{v.kernel[0], v.kernel[1]}},
                     {"stride", Axes{v.stride[0], v.stride[1]}},
                     {"padding", Axes{0, 0}},
                     {"ceil_mode", false},
                     {"dilation", Axes{1, 1}}};
  const Specs in{f32({1, height, width, 3})}, out = max_pool2d_def().infer(in, a);
  const Problem problem{max_pool2d_def(), a, in, out};
  const Values memory{test_session().empty(in[0]), test_session().empty(out[0]), test_session().empty(out[1])};
  std::vector<opencl::Region> operands;
  for (const Value& value : memory) operands.push_back(region_of(value));
  const auto recording = opencl::Recording::make(test_device(), operands, [&](opencl::Device& device, std::span<const opencl::Region> regions) {
    Launch call({device, {}}, problem, regions.first(1), regions.subspan(1), {});
    choose(problem, device.profile()).launch(call);
  });
  return std::get<opencl::Recording::Run>(recording->entries()[0]).kernel;
}

TEST(DevicePooling, images_of_two_sizes_share_one_program) {
  EXPECT_EQ(kernel_for(8, 10, {}), kernel_for(6, 4, {}));
  const Window overlapping{.kernel = {3, 3}, .stride = {2, 2}};
  EXPECT_EQ(kernel_for(8, 10, overlapping), kernel_for(9, 7, overlapping));
  EXPECT_EQ(kernel_for(60, 61, {.kernel = {56, 56}}), kernel_for(58, 57, {.kernel = {57, 56}})) << "a large window is no constant";
}

// Windows that lie side by side skip the checks of their taps; these do so along no, one or both axes.
TEST(DevicePooling, is_right_where_windows_leave_rows_behind_or_lie_apart) {
  for (const auto& [height, width, kernel, stride] :
       {std::array<std::int64_t, 4>{7, 6, 2, 2}, {6, 7, 2, 2}, {7, 9, 2, 3}, {8, 8, 2, 3}, {9, 9, 2, 4}, {10, 9, 1, 3}}) {
    const Shape x{2, height, width, 3};
    Attributes a{{"kernel", Axes{kernel, kernel}}, {"stride", Axes{stride, stride}}, {"padding", Axes{0, 0}}, {"ceil_mode", false}, {"dilation", Axes{1, 1}}};
    expect_every_variant_right(max_pool2d_def(), {{{x}}, a, {distinct()}});
    const Spec y = max_pool2d_def().infer({{x}}, a)[0];
    a.set("shape", x);
    expect_every_variant_right(max_pool2d_gradient_def(), {{y, {y.shape, DType::int32}}, a, {Fill{}, integers(0, static_cast<int>(kernel * kernel))}});
  }
}

}  // namespace
}  // namespace gemel::testing
