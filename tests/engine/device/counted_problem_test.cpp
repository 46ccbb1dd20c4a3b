// Counts of a launch that does not run: kernels, work-groups, bytes, against what the operators' shapes say.
#include "engine/device/counted_problem.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/ops/ops.h"
#include "opencl/device/pretended_gpu.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

opencl::DeviceProfile gpu() {
  opencl::DeviceProfile out{.compute_units = 2, .simd_width = 16, .cache_bytes = 4 << 20, .max_group_size = 1024, .has_fma = true};
  pretend(out, "gpu:name=h100");
  return out;
}

CountedProblem counted(const OpDef& op, const Specs& inputs, const Attributes& attributes = {}) {
  return count_problem({op, attributes, inputs, op.infer(inputs, attributes)}, gpu());
}

TEST(CountedProblem, of_an_elementwise_operator_reads_its_inputs_and_writes_its_output) {
  const CountedProblem sum = counted(add_def(), {f32({1000, 256}), f32({256})});
  ASSERT_EQ(sum.commands.size(), 1u);
  EXPECT_EQ(sum.commands[0].read_bytes, 4 * (256'000 + 256));
  EXPECT_EQ(sum.commands[0].written_bytes, 4 * 256'000);
  EXPECT_EQ(sum.commands[0].groups * sum.commands[0].group_items, 256'000);
}

TEST(CountedProblem, of_several_kernels_adds_what_each_gets) {
  const Specs inputs{f32({64, 56, 56, 64}), f32({64}), f32({64}), f32({64}), f32({64}), i64({})};
  const CountedProblem norm = counted(batch_norm_def(), inputs, batch_norm_def().samples()[0].attributes);
  const std::int64_t pictures = inputs[0].bytes();
  EXPECT_EQ(norm.commands.size(), 2u) << "the moments of spans, and all else";
  EXPECT_GE(norm.bytes(), 3 * pictures) << "read for the moments, read and written";
  EXPECT_LE(norm.bytes(), 3 * pictures + pictures / 10);
}

TEST(CountedProblem, what_is_updated_in_place_is_read_and_written) {
  const Sample sample = momentum_update_def().samples()[0];
  const CountedProblem update = counted(momentum_update_def(), sample.inputs, sample.attributes);
  std::int64_t read = 0, written = 0, inputs = 0, changed = 0;
  for (const auto& c : update.commands) {
    read += c.read_bytes;
    written += c.written_bytes;
  }
  for (const Spec& s : sample.inputs) inputs += s.bytes();
  for (const int i : momentum_update_def().writes) changed += sample.inputs[static_cast<std::size_t>(i)].bytes();
  EXPECT_EQ(read, inputs);
  EXPECT_EQ(written, changed);
}

TEST(CountedProblem, every_sample_that_a_gpu_computes_is_counted) {
  int counted_samples = 0;
  for (const OpCase& c : all_cases()) {
    const Sample s = c.op->samples()[static_cast<std::size_t>(c.sample)];
    const Specs outputs = c.op->infer(s.inputs, s.attributes);
    const bool is_computed = std::ranges::any_of(outputs, [](const Spec& o) { return o.elements() > 0; });
    if (c.op->variants.empty() || c.op->execute || c.op->views || !is_computed) continue;
    const CountedProblem found = count_problem({*c.op, s.attributes, s.inputs, outputs}, gpu());
    std::int64_t least_written = 0;
    for (const Spec& o : outputs) least_written += o.bytes();
    EXPECT_GE(found.bytes(), least_written) << c.op->name << ", sample " << c.sample;
    ++counted_samples;
  }
  EXPECT_GT(counted_samples, 500);
}

TEST(CountedProblem, what_of_the_workspace_stays_in_the_last_cache_is_apart) {
  Attributes a{{"stride", Axes{1, 1}}, {"padding", Axes{1, 1}}, {"dilation", Axes{1, 1}}, {"groups", 1}};
  const Specs inputs{f32({32, 7, 7, 512}), f32({3, 3, 512, 512})}, outputs{inputs[0]};
  const auto counted_with = [&](std::int64_t cache_bytes) {
    opencl::DeviceProfile profile = gpu();
    profile.cache_bytes = cache_bytes;
    profile.max_allocation_bytes = 1 << 30;
    profile.preferences.variants["conv2d"] = {.name = "group_winograd"};
    return count_problem({conv2d_def(), a, inputs, outputs}, profile);
  };
  // 128 tiles of 4x4, of 36 points and 512 channels before and after the products; and the weights at 36 points.
  const std::int64_t tiles = 4 * 36 * 128 * 512, weights = 4 * 36 * 512 * 512, images = 2 * inputs[0].bytes() + inputs[1].bytes();
  const CountedProblem none = counted_with(1), tiles_alone = counted_with(5 * tiles), all = counted_with(2 * (2 * tiles + weights));
  EXPECT_EQ(none.commands.size(), 3u);
  EXPECT_EQ(none.cached_bytes(), 0);
  EXPECT_EQ(none.bytes(), images + 4 * tiles + 2 * weights);
  EXPECT_EQ(tiles_alone.cached_bytes(), tiles) << "what the last kernel reads, alone: the others get the weights, too";
  EXPECT_EQ(all.cached_bytes(), 4 * tiles + 2 * weights);
  for (const CountedProblem* counted : {&tiles_alone, &all}) EXPECT_EQ(counted->bytes() + counted->cached_bytes(), none.bytes());
}

TEST(LeastBytes, are_those_of_products_and_none_of_what_another_operator_can_do_in_passing) {
  const auto of = [](const OpDef& op, const Specs& inputs, const Attributes& attributes) {
    const Specs outputs = op.infer(inputs, attributes);
    return least_bytes({op, attributes, inputs, outputs});
  };
  EXPECT_EQ(of(add_def(), {f32({8}), f32({8})}, {}), 0);
  EXPECT_EQ(of(transpose_def(), {f32({8, 4})}, {{"order", Axes{1, 0}}}), 0);
  const Sample product = matmul_def().samples()[0];
  std::int64_t all = 0;
  for (const Specs& specs : {product.inputs, matmul_def().infer(product.inputs, product.attributes)})
    for (const Spec& s : specs) all += s.bytes();
  EXPECT_EQ(of(matmul_def(), product.inputs, product.attributes), all);
}

}  // namespace
}  // namespace gemel::testing
