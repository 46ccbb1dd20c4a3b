// Products and convolutions on matrix units, by the C model of their instructions: values against the definition in double, and the precision of both modes.
#include "opencl/device/matrix_units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/device/device_memory.h"
#include "engine/ops/convolution/convolution_operators.h"
#include "opencl/device/stand_in_device.h"
#include "opencl/program/tuning_table.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/double_product.h"
#include "tests/support/operators/gemm_products.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

using opencl::Device;
using opencl::DeviceProfile;
using opencl::GemmOperands;
using opencl::GemmProblem;
using opencl::MatrixUnits;

constexpr double kTf32 = 0x1p-12;  // to nearest, of 11 bits

/// A CPU that pretends to be a GPU with matrix units. Of one unit, so that few products are cut into parts.
const std::shared_ptr<Device>& device_with_units(Precision precision) {
  static const auto make = [](Precision p) {  // never destroyed: some drivers are gone before the objects of a program are
    return std::make_unique<std::shared_ptr<Device>>(pretended_device("gpu:units=1,tf32=1", {.precision = p})).release();
  };
  static const auto &float32 = *make(Precision::float32), &tf32 = *make(Precision::tf32);
  return precision == Precision::tf32 ? tf32 : float32;
}

bool pretends() { return test_device().profile().is_cpu() && !test_device().profile().is_emulator; }

const GemmForm& units_form() { return form_named("matrix_units"); }

std::string check_on_units(const GemmProblem& p, Precision precision) {
  Device& device = *device_with_units(precision);
  if (const char* why = why_not(units_form(), p, device.profile())) return why;
  // A product of two rounded factors is off by both roundings, which do not grow with k as that of sums does.
  const double unit = precision == Precision::tf32 ? 2.01 * kTf32 / static_cast<double>(p.k + 4) + 0x1p-23 : 0x1p-24;
  return check_product(device, p, units_form().workspace_bytes(p, device.profile()), units_form().launch, unit);
}

constexpr std::array kPrecisions{Precision::float32, Precision::tf32};
constexpr std::array kOrders{Transpose::no, Transpose::yes};

// The precisions have one layout: vectors of 4 are tested in one, single elements in the other.
TEST(MatrixUnits, agree_with_the_definition_for_all_orders_and_odd_sizes) {
  if (!pretends()) GTEST_SKIP() << "a CPU pretends";
  for (const Transpose ta : kOrders)
    for (const Transpose tb : kOrders) {
      GemmProblem p = product(68, 76, 52, ta, tb);  // more than a tile
      p.adds = ta == tb;
      ASSERT_EQ(check_on_units(p, Precision::float32), "");
      if (ta == tb) {
        ASSERT_EQ(check_on_units(product(67, 5, 37, ta, tb), Precision::tf32), "");
      }
    }
}

TEST(MatrixUnits, take_tiles_of_all_sizes) {
  if (!pretends()) GTEST_SKIP() << "a CPU pretends";
  for (const Precision precision : kPrecisions)
    for (const auto& [m, n] : {std::pair{132, 132}, std::pair{132, 60}}) ASSERT_EQ(check_on_units(product(m, n, 20), precision), "") << m << " " << n;
}

TEST(MatrixUnits, keep_to_strides_and_parts) {
  if (!pretends()) GTEST_SKIP() << "a CPU pretends";
  for (const int repeated : {0, 1, 2}) {
    GemmProblem p = product(20, 36, 28);
    p.batch = 3;
    p.stride_a = repeated == 1 ? 0 : p.m * p.k;
    p.stride_b = repeated == 2 ? 0 : p.k * p.n;
    p.stride_c = p.m * p.n;
    ASSERT_EQ(check_on_units(p, Precision::float32), "") << repeated;
  }
  const auto device = pretended_device("gpu:units=64,tf32=1");
  GemmProblem p = product(36, 20, 2000);
  p.adds = true;
  EXPECT_GT(units_form().workspace_bytes(p, device->profile()), 0) << "it is cut";
  EXPECT_EQ(check_product(*device, p, units_form().workspace_bytes(p, device->profile()), units_form().launch), "");
}

/// C of a product of drawn floats, with whatever follows it.
std::vector<float> on_units(const GemmProblem& p, const Operand& bias, Device& device) {
  const Operand a(device, drawn_floats(p.m * p.k, 1)), b(device, drawn_floats(p.k * p.n, 2)), on_c(device, p.m * p.n);
  const std::vector<opencl::Argument> arguments{bias.region()};
  GemmProblem q = p;
  if (!p.epilogue.text.empty()) q.epilogue.arguments = arguments;
  units_form().launch(device, q, {a.region(), b.region(), on_c.region(), on_c.region()});
  std::vector<float> c(at(p.m * p.n));
  device.read(on_c.region(), std::as_writable_bytes(std::span(c)));
  return c;
}

TEST(MatrixUnits, compute_an_epilogue_once_on_each_element) {
  if (!pretends()) GTEST_SKIP() << "a CPU pretends";
  Device& device = *device_with_units(Precision::float32);
  for (const std::int64_t n : {36, 35}) {
    GemmProblem p = product(33, n, 20);
    const auto bias = drawn_floats(n, 3);
    const Operand on_bias(device, bias);
    auto expected = on_units(p, on_bias, device);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = expected[i] + bias[i % at(n)];
    p.epilogue.text =
        "#define EPILOGUE_PARAMETERS , __global const float* bias\n"
        "#define EPILOGUE(v, i, c) ((v) + bias[c] + 0 * (i))\n";
    EXPECT_EQ(on_units(p, on_bias, device), expected) << n;
  }
}

/// Of a product of 64 x 64: over the sum of magnitudes of its terms.
struct ProductError {
  double root_mean_square = 0, largest = 0;
};

enum class Signs { both, positive };

ProductError error_of_product(const GemmForm& form, std::int64_t k, Signs signs, Device& device) {
  const GemmProblem p = product(64, 64, k);
  auto a = drawn_floats(p.m * p.k, 1), b = drawn_floats(p.k * p.n, 2), c = drawn_floats(p.m * p.n, 3);
  if (signs == Signs::positive)
    for (std::vector<float>* all : {&a, &b})
      for (float& v : *all) v = std::abs(v);
  const Operand on_a(device, a), on_b(device, b), on_c(device, c), workspace(device, ceil_div(form.workspace_bytes(p, device.profile()), 4));
  form.launch(device, p, {on_a.region(), on_b.region(), on_c.region(), workspace.region()});
  device.read(on_c.region(), std::as_writable_bytes(std::span(c)));
  ProductError out;
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      const auto [sum, magnitude] = dot_product(a.data() + i * k, 1, b.data() + j, p.n, k);
      const double error = std::abs(static_cast<double>(c[at(i * p.n + j)]) - sum) / magnitude;
      out.root_mean_square += error * error / static_cast<double>(p.m * p.n);
      out.largest = std::max(out.largest, error);
    }
  out.root_mean_square = std::sqrt(out.root_mean_square);
  return out;
}

TEST(MatrixUnits, in_float32_are_no_further_off_than_fused_multiply_adds) {
  if (!pretends()) GTEST_SKIP() << "a CPU pretends";
  Device& device = *device_with_units(Precision::float32);
  for (const std::int64_t k : {64, 576, 4608})
    for (const Signs signs : {Signs::both, Signs::positive}) {
      const ProductError own = error_of_product(units_form(), k, signs, device), usual = error_of_product(form_named("group_tile_64x64"), k, signs, device);
      EXPECT_LE(own.root_mean_square, usual.root_mean_square) << k;
      EXPECT_LE(own.largest, usual.largest) << k;
    }
}

// Of factors whose roundings are independent: 2^-12 / sqrt(3) each, over sqrt(k) terms.
TEST(MatrixUnits, in_tf32_are_as_far_off_as_factors_of_11_bits) {
  if (!pretends()) GTEST_SKIP() << "a CPU pretends";
  const ProductError error = error_of_product(units_form(), 64, Signs::both, *device_with_units(Precision::tf32));
  EXPECT_GT(error.root_mean_square, kTf32 / 30);
  EXPECT_LT(error.root_mean_square, kTf32 / 5);
}

/// What a variant makes of drawn inputs.
std::vector<double> by_units(Device& device, const OpDef& op, const Specs& in, const Attributes& attributes, std::string_view variant) {
  const auto shared = std::shared_ptr<Device>(&device, [](Device*) {});
  Session session(shared);
  const Specs out_specs = op.infer(in, attributes);
  const Value out = session.empty(out_specs[0]);
  Values values;
  std::vector<opencl::Region> regions;
  for (const Spec& s : in) {
    const auto floats = drawn_floats(s.elements(), static_cast<std::uint32_t>(regions.size() + 1));
    const std::vector<double> numbers(floats.begin(), floats.end());
    values.push_back(session.tensor(s, std::span<const double>(numbers)));
    regions.push_back(region_of(values.back()));
  }
  const std::array out_regions{region_of(out)};
  const auto found = std::ranges::find(op.variants, variant, &Variant::name);
  const Problem problem{op, attributes, in, out_specs};
  const char* why = declines(*found, problem, device.profile());
  EXPECT_EQ(why, nullptr);
  launch(session, *found, problem, regions, out_regions);
  return read(out);
}

// The bound of float32 is that of convolution_test.cpp; of TF32, both roundings of factors.
TEST(MatrixUnits, convolve_in_all_directions) {
  if (!pretends()) GTEST_SKIP() << "a CPU pretends";
  for (const auto& [channels, filters, stride] : {std::array<std::int64_t, 3>{20, 36, 2}, std::array<std::int64_t, 3>{5, 7, 1}}) {
    const Spec x = f32({2, 9, 11, channels}), w = f32({3, 3, channels, filters});
    Attributes a{{"stride", Axes{stride, stride}}, {"padding", Axes{1, 1}}, {"dilation", Axes{1, 1}}, {"groups", 1}};
    const Spec y = conv2d_def().infer({x, w}, a)[0];
    Attributes of_x = a, of_w = a;
    of_x.set("shape", x.shape);
    of_w.set("shape", w.shape);
    struct Case {
      const OpDef& op;
      Specs in;
      const Attributes& attributes;
    };
    for (const Case& c : {Case{conv2d_def(), {x, w}, a}, Case{conv2d_input_gradient_def(), {y, w}, of_x}, Case{conv2d_weight_gradient_def(), {y, x}, of_w}}) {
      const auto expected = by_units(test_device(), c.op, c.in, c.attributes, "direct");
      const Precision precision = stride == 2 ? Precision::float32 : Precision::tf32;
      const double error = relative_error(by_units(*device_with_units(precision), c.op, c.in, c.attributes, "matrix_units"), expected);
      EXPECT_TRUE(precision == Precision::float32 ? error <= 1e-5 : error > 1e-5 && error < 2e-3) << c.op.name << " " << channels << ": " << error;
    }
  }
}

/// A GPU that has never been seen, with units.
DeviceProfile profile_with_units(Precision precision) {
  return {.kind = opencl::DeviceKind::gpu,
          .compute_units = 100,
          .max_allocation_bytes = std::int64_t{1} << 30,
          .max_group_size = 256,
          .matrix_units = MatrixUnits::mma_sync,
          .preferences = {.precision = precision}};
}

TEST(MatrixUnits, are_taken_where_tf32_is_asked_for_and_not_before_measurements_in_float32) {
  const GemmProblem p = product(512, 512, 512);
  const Spec x = f32({8, 32, 32, 64}), w = f32({3, 3, 64, 64});
  const Attributes a{{"stride", Axes{1, 1}}, {"padding", Axes{1, 1}}, {"dilation", Axes{1, 1}}, {"groups", 1}};
  const Specs in{x, w}, out = conv2d_def().infer(in, a);
  const auto of_convolution = [&](const DeviceProfile& profile) { return std::string(choose({conv2d_def(), a, in, out}, profile).name); };
  DeviceProfile in_float32 = profile_with_units(Precision::float32), in_tf32 = profile_with_units(Precision::tf32);
  EXPECT_EQ(why_not(units_form(), p, in_float32), nullptr) << "tests and measurements run it";
  EXPECT_STREQ(why_not(units_form(), product(64, 64, 0), in_float32), "its inner axis is empty");
  EXPECT_STRNE(product_form(p, in_float32).name, "matrix_units");
  EXPECT_STREQ(product_form(p, in_tf32).name, "matrix_units");
  EXPECT_NE(of_convolution(in_float32), "matrix_units");
  EXPECT_EQ(of_convolution(in_tf32), "matrix_units");
  opencl::TuningTable measured;
  measured.set(tuning_key(matmul_of(p).problem(), in_float32), "matrix_units");
  in_float32.preferences.tuning = in_tf32.preferences.tuning = std::make_shared<opencl::TuningTable>(measured);
  EXPECT_STREQ(product_form(p, in_float32).name, "matrix_units");
  measured.set(tuning_key(matmul_of(p).problem(), in_float32), "clblast");
  in_tf32.preferences.tuning = std::make_shared<opencl::TuningTable>(measured);
  EXPECT_STREQ(product_form(p, in_tf32).name, "matrix_units") << "what was measured in float32 says nothing of TF32";
  in_tf32.matrix_units = MatrixUnits::none;
  EXPECT_STREQ(why_not(units_form(), p, in_tf32), "the device has no matrix units for it");
  EXPECT_NE(of_convolution(in_tf32), "matrix_units");
}

/// Matrix units that multiply, but not as they should.
class WrongUnits final : public opencl::StandInDevice {
 public:
  explicit WrongUnits(Device& device) : device_(device) {}
  const DeviceProfile& profile() const override { return device_.profile(); }
  const opencl::DeviceSettings& settings() const override { return device_.settings(); }
  opencl::Allocator& memory() override { return device_.memory(); }
  opencl::Kernel& kernel(std::string_view file, std::string_view name, std::string_view options, std::string_view preface) override {
    return device_.kernel(file, name, options, preface);
  }
  opencl::Kernel& generated_kernel(std::string_view title, const std::function<std::string()>& source, std::string_view name) override {
    return device_.generated_kernel(title, source, name);
  }
  void run(opencl::Kernel& kernel, const opencl::Range& range, std::span<const opencl::Argument> arguments) override {
    if (fails) throw DeviceError("it does not run");
    device_.run(kernel, range, arguments);
  }
  void copy(const opencl::Region& from, const opencl::Region& to) override { device_.copy(from, to); }
  void fill(const opencl::Region& to, std::span<const std::byte> pattern) override { device_.fill(to, pattern); }
  void native(const std::function<void(void*, void**)>& enqueue, std::string_view name) override { device_.native(enqueue, name); }
  void write(const opencl::Region& to, std::span<const std::byte> from) override { device_.write(to, from); }
  void read(const opencl::Region& from, std::span<std::byte> to) override {
    device_.read(from, to);
    if (is_off) std::swap_ranges(to.begin(), to.begin() + sizeof(float), to.begin() + sizeof(float));
  }
  bool fails = false, is_off = false;

 private:
  Device& device_;
};

TEST(MatrixUnits, are_tried_before_they_are_used) {
  if (!pretends()) GTEST_SKIP() << "a CPU pretends";
  Device& device = *device_with_units(Precision::float32);
  EXPECT_TRUE(multiplies_exactly(device));
  WrongUnits wrong(device);
  EXPECT_TRUE(multiplies_exactly(wrong));
  wrong.is_off = true;
  EXPECT_FALSE(multiplies_exactly(wrong)) << "two results are exchanged";
  wrong.is_off = false;
  wrong.fails = true;
  EXPECT_FALSE(multiplies_exactly(wrong)) << "and says nothing";
  EXPECT_EQ(test_device().profile().matrix_units, MatrixUnits::none);
}

}  // namespace
}  // namespace gemel::testing
