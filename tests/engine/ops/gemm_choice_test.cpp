// Which form of GEMM is chosen, and the form for two bytes.
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "engine/base/dtype_conversion.h"
#include "engine/ops/matmul/group_tiles.h"
#include "opencl/clblast/clblast_gemm.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/gemm_products.h"

namespace gemel::testing {
namespace {

using opencl::Device;
using opencl::DeviceKind;
using opencl::DeviceProfile;
using opencl::GemmProblem;
using opencl::Region;

TEST(Gemm, clblast_declines_what_its_32_bit_offsets_do_not_reach) {
  DeviceProfile profile{.max_group_size = 256};
  const GemmForm& clblast = form_named("clblast");
  GemmProblem p = product(1 << 15, 64, 1 << 15);
  EXPECT_EQ(clblast.declines(p, profile), nullptr);
  p.m = 1 << 16;
  EXPECT_STREQ(clblast.declines(p, profile), "its 32-bit offsets do not reach every element");
  p = product(1 << 10, 1 << 10, 8);
  p.batch = 1 << 11;
  p.stride_c = 1 << 20;
  EXPECT_STREQ(clblast.declines(p, profile), "its 32-bit offsets do not reach every element");
}

TEST(Gemm, forms_decline_by_type) {
  const DeviceProfile profile{.kind = DeviceKind::gpu, .max_group_size = 256};
  GemmProblem p = product(64, 64, 64);
  EXPECT_STREQ(why_not(form_named("widened"), p, profile), "its elements do not have two bytes");
  EXPECT_STREQ(product_form(p, profile).name, "clblast");
  for (const DType type : {DType::float16, DType::bfloat16}) {
    p.types = {.in = type, .out = type};
    for (const char* name : {"clblast", "columns"}) EXPECT_STREQ(why_not(form_named(name), p, profile), "its elements are not float32");
    EXPECT_STREQ(product_form(p, profile).name, "widened");
    p.types.out = DType::float32;
    EXPECT_STREQ(form_named("widened").declines(p, profile), "its elements do not have two bytes") << "of its operands alone";
  }
}

TEST(Gemm, form_is_chosen_by_device_by_extents_and_by_the_users_wish) {
  DeviceProfile profile{.max_group_size = 256};
  const auto p = product(64, 64, 64);
  profile.kind = DeviceKind::cpu;
  profile.simd_width = 16;
  EXPECT_STREQ(product_form(p, profile).name, "tiles_8") << "eight of them are 64 rows";
  EXPECT_STREQ(product_form(product(70, 64, 64), profile).name, "tiles_14");
  EXPECT_STREQ(product_form(product(3, 64, 64), profile).name, "few_rows");
  EXPECT_STREQ(product_form(product(3, 768, 3072), profile).name, "parts");
  EXPECT_STREQ(product_form(product(3, 768, 3079), profile).name, "few_rows") << "a prime number of terms";
  EXPECT_STREQ(product_form(product(3, 64, 512, Transpose::no, Transpose::yes), profile).name, "dots");
  profile.preferences = {.wanted = "clblast"};
  EXPECT_STREQ(product_form(p, profile).name, "clblast");
  profile.kind = DeviceKind::gpu;
  profile.preferences = {};
  EXPECT_STREQ(product_form(p, profile).name, "clblast");
  profile.overlaps_sub_buffers = false;
  EXPECT_STREQ(product_form(p, profile).name, "group_tile_64x64") << "CLBlast would copy operands that begin at an offset";
  profile.overlaps_sub_buffers = true;
  profile.preferences = {.unwanted = "clblast"};
  EXPECT_STREQ(product_form(p, profile).name, "group_tile_64x64");
  profile.preferences = {.wanted = "clblast"};
  EXPECT_STREQ(product_form(product(64, 64, 0), profile).name, "columns") << "CLBlast takes no empty extent";
  profile.max_group_size = 128;
  EXPECT_STREQ(product_form(p, profile).name, "columns") << "CLBlast's groups have 256 work-items";
  profile.max_group_size = 256;
  // So that a table of measurements cannot name them either.
  for (const GemmForm& form : own_forms()) EXPECT_NE(why_not(form, p, profile), nullptr) << form.name;
}

TEST(Gemm, group_tiles_cut_long_sums_into_parts_until_the_device_is_full) {
  const DeviceProfile profile{.kind = DeviceKind::gpu, .compute_units = 132, .max_group_size = 256};
  const gemm::GroupTile& tile = gemm::kGroupTiles[0];
  EXPECT_EQ(parts_of(tile, product(8192, 8192, 512), profile).count, 1);
  for (const std::int64_t k : {1000, 8192, 100000}) {
    const gemm::TileParts parts = parts_of(tile, product(512, 512, k), profile);
    EXPECT_GE(tiles_of(tile, product(512, 512, k)) * parts.count, k == 1000 ? 64 : 256) << k;
    EXPECT_EQ(parts.terms % tile.depth, 0);
    EXPECT_GE(parts.terms * parts.count, k);
    EXPECT_LT(parts.terms * (parts.count - 1), k) << "no part is empty";
    EXPECT_LE(parts.terms, 16384);
  }
  GemmProblem apart = product(64, 64, 8192);
  apart.batch = 2;
  apart.stride_c = 5000;
  EXPECT_EQ(parts_of(tile, apart, profile).count, 1) << "matrices that lie apart";
}

TEST(Gemm, group_tiles_of_many_results_need_registers_that_not_all_gpus_have) {
  DeviceProfile profile{.kind = DeviceKind::gpu, .compute_units = 16, .max_group_size = 1024};
  const GemmProblem p = product(4096, 4096, 64);
  EXPECT_EQ(why_not(form_named("group_tile_128x128"), p, profile), nullptr);
  EXPECT_FALSE(gemm::options_of(gemm::kGroupTiles[0], true, profile).find("SUB_GROUP") != std::string::npos);
  profile.least_sub_group_width = 8;
  EXPECT_STREQ(why_not(form_named("group_tile_128x128"), p, profile), "its results are more than a work-item has registers for");
  EXPECT_EQ(why_not(form_named("group_tile_128x64"), p, profile), nullptr);
  EXPECT_TRUE(gemm::options_of(gemm::kGroupTiles[1], true, profile).ends_with(" -DSUB_GROUP=8"));
}

// Of 100 or so sets, one in 256 is none: more are tried.
TEST(Gemm, clblast_is_tuned_with_one_set_of_parameters_at_least) {
  if (test_device().profile().is_emulator) GTEST_SKIP() << "it would measure the emulator";
  EXPECT_FALSE(tune_clblast(test_device(), "Copy", 64, 256).empty());
}

/// Integers of at most 2 in bfloat16, which holds their sums exactly.
std::vector<std::uint16_t> small_integers(std::int64_t count, int seed) {
  std::vector<std::uint16_t> out(at(count));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = bfloat16_from_float(static_cast<float>((i * i + at(seed) * i) % 5) - 2);
  return out;
}

TEST(DeviceGemm, widened_products_are_added_to_what_is_there_where_asked) {
  Device& device = test_device();
  const GemmForm& form = form_named("widened");
  GemmProblem p = product(5, 18, 9);
  p.types = {.in = DType::bfloat16, .out = DType::bfloat16};
  const auto a = small_integers(p.m * p.k, 1), b = small_integers(p.k * p.n, 2), before = small_integers(p.m * p.n, 3);
  const auto on_device = [&](const Operand& operand, std::span<const std::uint16_t> bits) {
    const Region region{operand.buffer.block(), operand.offset, std::ssize(bits) * 2};
    device.write(region, std::as_bytes(bits));
    return region;
  };
  for (const bool adds : {false, true}) {
    p.adds = adds;
    const Operand room_a(device, std::ssize(a)), room_b(device, std::ssize(b)), room_c(device, std::ssize(before));
    const Operand workspace(device, ceil_div(form.workspace_bytes(p, device.profile()), 4));
    const Region on_c = on_device(room_c, before);
    form.launch(device, p, {on_device(room_a, a), on_device(room_b, b), on_c, workspace.region()});
    std::vector<std::uint16_t> c(before.size());
    device.read(on_c, std::as_writable_bytes(std::span(c)));
    for (std::size_t i = 0; i < c.size(); ++i) {
      float sum = adds ? float_from_bfloat16(before[i]) : 0;
      for (std::size_t k = 0; k < at(p.k); ++k) sum += float_from_bfloat16(a[i / at(p.n) * at(p.k) + k]) * float_from_bfloat16(b[k * at(p.n) + i % at(p.n)]);
      ASSERT_EQ(float_from_bfloat16(c[i]), sum) << i;
    }
  }
}

}  // namespace
}  // namespace gemel::testing
