// The forms of GEMM against the definition in double.
#include "engine/ops/matmul/gemm_forms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/numbers.h"
#include "opencl/program/tuning_table.h"
#include "tests/support/device/cache_folder.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/double_product.h"
#include "tests/support/operators/gemm_products.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::opencl {
namespace {

using testing::all_forms;
using testing::check_product;
using testing::drawn_floats;
using testing::form_named;
using testing::is_named;
using testing::Operand;
using testing::own_forms;
using testing::product;
using testing::why_not;

constexpr std::int64_t kStraddling[] = {1, 15, 16, 17, 31, 32, 33, 63, 64, 65};

bool takes(const GemmForm& form, const GemmProblem& p, Device& device = testing::test_device()) { return !why_not(form, p, device.profile()); }

std::string check_product(const GemmProblem& p, const GemmForm& form, Device& device = testing::test_device()) {
  if (const char* why = why_not(form, p, device.profile())) return std::string("it declines: ") + why;
  return check_product(device, p, form.workspace_bytes(p, device.profile()), form.launch);
}

constexpr Transpose kBoth[] = {Transpose::no, Transpose::yes};
/// B as the form takes it.
Transpose b_for(const GemmForm& form) { return is_named(form, "few_rows") || is_named(form, "parts") ? Transpose::no : Transpose::yes; }

TEST(DeviceGemm, every_form_agrees_with_the_definition_around_tile_edges) {
  const std::size_t step = testing::does_long_work() ? 1 : 4;
  for (const GemmForm& form : all_forms())
    for (std::size_t i = 0; i < 10; ++i)
      for (std::size_t j = i % step; j < 10; j += step)
        for (const Transpose ta : kBoth)
          for (const Transpose tb : kBoth) {
            const auto p = product(kStraddling[j], kStraddling[i], kStraddling[(7 * i + j) % 10], ta, tb);
            if (takes(form, p)) {
              ASSERT_EQ(check_product(p, form), "") << form.name;
            }
          }
}

TEST(Gemm, native_forms_for_eight_lanes_agree_with_the_definition) {
  if (!testing::test_device().profile().has_wide_vectors()) GTEST_SKIP() << "the other tests do this here";
  Device& device = testing::narrow_device();
  for (const GemmForm& form : own_forms())
    for (const auto& [m, n, k] :
         {std::array{1, 7, 17}, std::array{2, 33, 20}, std::array{4, 15, 400}, std::array{6, 17, 9}, std::array{29, 300, 400}, std::array{3, 20, 1041}})
      for (const Transpose ta : kBoth)
        for (const Transpose tb : kBoth) {
          const auto p = product(m, n, k, ta, tb);
          if (takes(form, p, device)) {
            ASSERT_EQ(check_product(p, form, device), "") << form.name;
          }
        }
}

TEST(DeviceGemm, inner_axis_longer_than_a_block_is_summed_whole) {
  for (const GemmForm& form : own_forms())
    for (const std::int64_t k : {383, 384, 385, 800, 1041})
      for (const Transpose ta : kBoth)
        for (const Transpose tb : kBoth) {
          for (const std::int64_t m : {5, 29}) {
            auto p = product(m, 45, k, ta, tb);
            p.adds = m == 5;
            if (takes(form, p)) {
              ASSERT_EQ(check_product(p, form), "");
            }
          }
        }
}

TEST(DeviceGemm, wide_products_pack_both_sides_over_several_groups_and_blocks) {
  if (testing::test_device().profile().is_emulator) GTEST_SKIP() << "an emulator packs only a transposed B, and takes a minute";
  for (const std::int64_t m : {29, 301})
    for (const std::int64_t n : {300, 321})
      for (const std::int64_t k : {400, 780})
        for (const Transpose ta : kBoth)
          for (const Transpose tb : kBoth) {
            auto p = product(m, n, k, ta, tb);
            p.adds = n == 300;
            for (const char* height : {"tiles_14", "tiles_8", "tiles_6", "tiles_4"})
              if (takes(form_named(height), p)) {
                ASSERT_EQ(check_product(p, form_named(height)), "") << height << " " << m << " " << n << " " << k;
              }
          }
}

TEST(Gemm, group_tiles_with_items_that_bring_no_vector_agree_with_the_definition) {
  for (const char* name : {"group_tile_128x64", "group_tile_128x32"})
    for (const Transpose tb : kBoth) {
      const auto p = product(132, 68, 40, Transpose::no, tb);
      ASSERT_EQ(check_product(p, form_named(name)), "") << name;
    }
}

TEST(DeviceGemm, products_are_added_to_what_is_there_where_asked) {
  for (const GemmForm& form : all_forms())
    for (const bool accumulate : {false, true}) {
      auto p = product(37, 50, 21);
      p.adds = accumulate;
      if (takes(form, p)) {
        ASSERT_EQ(check_product(p, form), "") << form.name;
      }
    }
}

TEST(DeviceGemm, batches_keep_to_their_strides_and_a_stride_of_0_repeats) {
  for (const GemmForm& form : all_forms())
    for (const Transpose ta : kBoth)
      for (const Transpose tb : kBoth)
        for (const int repeated : {0, 1, 2}) {
          auto p = product(19, 35, 26, ta, tb);
          p.batch = 5;
          p.stride_a = repeated == 1 ? 0 : p.m * p.k;
          p.stride_b = repeated == 2 ? 0 : p.k * p.n;
          p.stride_c = p.m * p.n;
          p.adds = repeated == 0 && ta == Transpose::no && tb == b_for(form);
          if (takes(form, p)) {
            ASSERT_EQ(check_product(p, form), "") << form.name;
          }
        }
}

/// Where the first of its two kernels takes products of any size it pads and transposes them, in memory that it is given. On a part of the device:
/// to CLBlast that is another one, which alone has these parameters.
TEST(Gemm, clblast_pads_in_memory_that_the_allocator_counts) {
  if (!testing::is_full_run() || !testing::test_device().profile().is_cpu()) GTEST_SKIP() << "with --full, on a CPU: its kernels take long to compile";
  const testing::CacheFolder folder;
  const DeviceOptions options{.device = "0.0", .gemm = GemmChoice::clblast};
  const std::filesystem::path file = *tuning_file(Device::open(options)->profile());
  TuningTable table;
  table.clblast["GemmRoutine"] = {{"XGEMM_MIN_INDIRECT_SIZE", 1}};
  std::filesystem::create_directories(file.parent_path());
  testing::write_text(file, table.text());
  const auto device = Device::open(options);
  const auto requests = [&] { return device->memory().statistics().requests; };
  for (const std::int64_t batch : {1, 3})
    for (const Transpose ta : kBoth)
      for (const Transpose tb : kBoth) {
        auto p = product(65, 33, 40, ta, tb);
        p.batch = batch;
        p.stride_a = p.m * p.k, p.stride_b = p.k * p.n, p.stride_c = p.m * p.n;
        p.adds = ta == tb;
        const std::int64_t before = requests();
        ASSERT_EQ(check_product(p, form_named("clblast"), *device), "");
        constexpr std::int64_t kOperands = 4;
        EXPECT_EQ(requests() - before, kOperands + batch) << "padded matrices of each product";
      }
}

TEST(KernelsGemm, native_forms_read_and_write_only_their_own) {
  const std::int64_t heights = testing::test_device().profile().is_emulator ? 2 : testing::test_device().profile().has_wide_vectors() ? 7 : 4;
  std::int64_t forms = 0;
  for (const GemmForm& form : own_forms()) {
    int ran = 0;
    for (const auto& [m, n, k] :
         {std::array{1, 1, 1}, std::array{13, 33, 17}, std::array{17, 40, 5}, std::array{50, 20, 16}, std::array{3, 35, 20}, std::array{2, 1100, 9}})
      for (const Transpose ta : kBoth)
        for (const Transpose tb : kBoth) {
          auto p = product(m, n, k, ta, tb);
          p.adds = m == 3;
          if (!takes(form, p)) continue;
          ASSERT_EQ(check_product(p, form), "") << form.name;
          ++ran;
        }
    forms += ran > 0;
  }
  EXPECT_EQ(forms, testing::test_device().profile().is_cpu() ? heights + 4 : 2);
}

/// m, n and k, with B transposed, for which the dot products read streams of B that lie apart; their number divides neither n.
constexpr std::array<std::int64_t, 3> kApart[] = {{1, 515, 520}, {2, 1029, 260}};

TEST(KernelsGemm, dots_of_streams_that_lie_apart_read_and_write_only_their_own) {
  for (const auto& [m, n, k] : kApart)
    for (const bool accumulate : {false, true}) {
      auto p = product(m, n, k, Transpose::no, Transpose::yes);
      p.adds = accumulate;
      EXPECT_EQ(check_product(testing::test_device(), p, 0, form_named("dots").launch), "");  // by the memory checker, too, whose device is no CPU
    }
}

/// C of a form, with a bias for each column and a residual added where asked.
std::vector<float> product_of(const GemmProblem& p, const GemmForm& form, const Operand& bias, const Operand& residual) {
  Device& device = testing::test_device();
  const Operand a(device, drawn_floats(p.batch * p.m * p.k, 1)), b(device, drawn_floats(p.batch * p.k * p.n, 2)), on_c(device, p.batch * p.m * p.n);
  const Operand workspace(device, ceil_div(form.workspace_bytes(p, device.profile()), 4));
  const std::vector<Argument> arguments{bias.region(), residual.region()};
  GemmProblem q = p;
  if (!p.epilogue.text.empty()) q.epilogue.arguments = arguments;
  form.launch(device, q, {a.region(), b.region(), on_c.region(), workspace.region()});
  std::vector<float> c(at(p.batch * p.m * p.n));
  device.read(on_c.region(), std::as_writable_bytes(std::span(c)));
  return c;
}

void expect_an_epilogue_once(const GemmForm& form, GemmProblem p) {
  Device& device = testing::test_device();
  p.batch = 2;
  p.stride_a = p.m * p.k, p.stride_b = p.k * p.n, p.stride_c = p.m * p.n;
  const auto bias = drawn_floats(p.n, 3), residual = drawn_floats(p.batch * p.m * p.n, 4);
  const Operand on_bias(device, bias), on_residual(device, residual);
  auto expected = product_of(p, form, on_bias, on_residual);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = expected[i] + bias[i % at(p.n)] + residual[i];
  p.epilogue.text =
      "#define EPILOGUE_PARAMETERS , __global const float* bias, __global const float* residual\n"
      "#define EPILOGUE(v, i, c) ((v) + bias[c] + residual[i])\n";
  EXPECT_EQ(product_of(p, form, on_bias, on_residual), expected) << form.name;
}

TEST(KernelsGemm, native_forms_compute_an_epilogue_once_on_each_element) {
  for (const GemmForm& form : own_forms())
    for (const auto& [m, n, k] : {std::array{1, 1, 3}, std::array{7, 33, 17}, std::array{13, 33, 17}, std::array{9, 40, 400}}) {
      const auto p = product(m, n, k, Transpose::no, b_for(form));
      if (takes(form, p) && (k < 100 || testing::does_long_work())) expect_an_epilogue_once(form, p);
    }
  for (const auto& [m, n, k] : kApart) expect_an_epilogue_once(form_named("dots"), product(m, n, k, Transpose::no, Transpose::yes));
}

TEST(KernelsGemm, empty_inner_axis_is_a_sum_of_nothing) {
  for (const GemmForm& form : own_forms())
    for (const bool accumulate : {false, true}) {
      auto p = product(b_for(form) == Transpose::no ? 7 : 14, 40, 0, Transpose::no, b_for(form));
      p.adds = accumulate;
      if (takes(form, p)) {
        EXPECT_EQ(check_product(p, form), "");
      }
    }
}

TEST(KernelsGemm, empty_results_do_nothing) {
  for (const auto& [m, n] : {std::pair{0, 5}, std::pair{5, 0}})
    for (const GemmForm& form : own_forms())
      if (const auto p = product(m, n, 3, Transpose::no, b_for(form)); takes(form, p)) {
        EXPECT_EQ(check_product(p, form), "") << form.name;
      }
}

TEST(DeviceGemm, same_product_twice_gives_the_same_bits) {
  Device& device = testing::test_device();
  const auto p = product(70, 90, 600);
  const GemmForm& form = product_form(p, device.profile());
  const Operand a(device, drawn_floats(p.m * p.k, 1)), b(device, drawn_floats(p.k * p.n, 2)), workspace(device, form.workspace_bytes(p, device.profile()) / 4);
  std::vector<float> first(at(p.m * p.n)), second(first);
  for (auto* result : {&first, &second}) {
    const Operand c(device, p.m * p.n);
    form.launch(device, p, {a.region(), b.region(), c.region(), workspace.region()});
    device.read(c.region(), std::as_writable_bytes(std::span(*result)));
  }
  EXPECT_EQ(first, second);
}

/// A B by the definition, in double; of one matrix.
std::vector<double> exact_product(const GemmProblem& p, const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<double> c;
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      double& sum = c.emplace_back(0);
      for (std::int64_t l = 0; l < p.k; ++l)
        sum += static_cast<double>(a[at(i * p.k + l)]) * static_cast<double>(b[at(p.b == Transpose::yes ? j * p.k + l : l * p.n + j)]);
    }
  return c;
}

// Of a linear layer behind a ReLU, all of A is positive. One sum of all terms is more than twice as far off, even where each lane has its own.
TEST(Gemm, long_sums_on_a_cpu_are_sums_of_short_ones) {
  if (!testing::test_device().profile().is_cpu() || testing::test_device().profile().is_emulator) GTEST_SKIP() << "for CPUs";
  constexpr std::pair<const char*, double> most_of[] = {{"tiles_4", 8}, {"dots", 6}, {"few_rows", 20}, {"parts", 20}};
  for (Device* device : {&testing::test_device(), &testing::narrow_device()})
    for (const auto& [name, most] : most_of)
      for (const std::int64_t n : {10, 40}) {
        const GemmForm& form = form_named(name);
        const auto p = product(4, n, 25088, Transpose::no, b_for(form));
        auto a = drawn_floats(p.m * p.k, 1), b = drawn_floats(p.k * p.n, 2), c = drawn_floats(p.m * p.n, 3);
        for (float& v : a) v = std::abs(v);
        std::vector<float> room(at(form.workspace_bytes(p, device->profile()) / 4 + 1));
        const Operand on_a(*device, a), on_b(*device, b), on_c(*device, c), workspace(*device, room);
        form.launch(*device, p, {on_a.region(), on_b.region(), on_c.region(), workspace.region()});
        device->read(on_c.region(), std::as_writable_bytes(std::span(c)));
        EXPECT_LE(testing::roundings({c.begin(), c.end()}, exact_product(p, a, b)), most) << form.name << " " << n;
      }
}

}  // namespace
}  // namespace gemel::opencl
