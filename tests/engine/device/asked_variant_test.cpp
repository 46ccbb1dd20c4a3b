// Variants that the user asked for, on a device of which only the profile is there.
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/device/dispatch.h"
#include "engine/ops/catalog.h"
#include "engine/ops/convolution/convolution_common.h"
#include "engine/ops/epilogue.h"
#include "engine/ops/matmul/matmul.h"
#include "opencl/program/tuning_table.h"
#include "tests/support/message_of.h"

namespace gemel::testing {
namespace {

opencl::DeviceProfile profile_with(const std::string& op, const std::string& variant) {
  opencl::DeviceProfile out{.simd_width = 16, .max_allocation_bytes = std::int64_t{1} << 30};
  if (!op.empty()) out.preferences.variants[op] = {variant};
  return out;
}

/// A 3x3 convolution, which many variants take.
struct Convolution {
  Specs in{f32({1, 8, 8, 16}), f32({3, 3, 16, 16})}, out{f32({1, 8, 8, 16})};
  Attributes attributes{{"stride", Axes{1, 1}}, {"padding", Axes{1, 1}}, {"dilation", Axes{1, 1}}, {"groups", std::int64_t{1}}};
  Problem problem() const { return {conv2d_def(), attributes, in, out}; }
};

TEST(Dispatch, takes_the_variant_that_is_asked_for_before_the_tuning_table) {
  const Convolution c;
  for (const char* name : {"direct", "gemm", "tiles", "winograd"}) {
    opencl::DeviceProfile profile = profile_with("conv2d", name);
    opencl::TuningTable table;
    table.set(tuning_key(c.problem(), profile), "tiles");
    profile.preferences.tuning = std::make_shared<opencl::TuningTable>(table);
    EXPECT_STREQ(choose(c.problem(), profile).name, name);
  }
  EXPECT_STREQ(choose(c.problem(), profile_with("matmul", "columns")).name, choose(c.problem(), profile_with("", "")).name) << "of another operator";
}

TEST(Dispatch, a_product_with_an_epilogue_or_a_sum_goes_by_its_product) {
  const Convolution c;
  const auto record = epilogue_record(conv2d_def(), relu_def(), {c.out[0]}, {Reach::product});
  EXPECT_STREQ(choose({*record, c.attributes, c.in, c.out}, profile_with("conv2d", "direct")).name, "direct");
  const Attributes a{{"transpose_a", true}, {"transpose_b", false}};
  const Specs in{f32({64, 3}), f32({64, 5}), f32({3, 5})}, out{f32({3, 5})};
  EXPECT_STREQ(choose({add_matmul_def(), a, in, out}, profile_with("matmul", "columns")).name, "columns");
}

TEST(Dispatch, a_variant_that_is_asked_for_and_declines_is_an_error) {
  const Convolution c;
  const auto refusal = [&](const std::string& name, std::span<const Refused> refused = {}) {
    return message_of<UsageError>([&] { choose(c.problem(), profile_with("conv2d", name), refused); });
  };
  const std::string begin = "is asked for of float32 [1, 8, 8, 16], float32 [3, 3, 16, 16] stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=1; ";
  EXPECT_TRUE(refusal("depthwise").starts_with("conv2d: variant 'depthwise' " + begin + "it declines: ")) << refusal("depthwise");
  EXPECT_NE(refusal("depthwise").find("; accepted: rows, "), std::string::npos) << refusal("depthwise");
  EXPECT_TRUE(refusal("of a later version").starts_with("conv2d: variant 'of a later version' " + begin + "there is none of that name; accepted: rows, "));
  const Refused crashed{&choose(c.problem(), profile_with("conv2d", "tiles")), "the compiler ends on it"};
  EXPECT_NE(refusal("tiles", std::span(&crashed, 1)).find("it declines: the compiler ends on it; accepted: rows, "), std::string::npos);
}

TEST(Dispatch, a_convolution_whose_products_the_asked_variant_of_matmul_declines_is_not_computed_by_them) {
  const Convolution c;
  const opencl::DeviceProfile profile = profile_with("matmul", "few_rows");
  EXPECT_FALSE(takes(c.problem(), "gemm", profile)) << "64 rows";
  EXPECT_TRUE(takes(c.problem(), "direct", profile));
  EXPECT_STRNE(choose(c.problem(), profile).name, "gemm");
}

}  // namespace
}  // namespace gemel::testing
