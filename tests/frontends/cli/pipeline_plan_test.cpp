// How many micro-batches a pipeline has by default.
#include "frontends/cli/strategies/pipeline_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace gemel::cli {
namespace {

using parallel::ScheduleKind;
using Sizes = std::vector<std::int64_t>;

/// Of a model on three stages that takes so many samples and more.
std::int64_t micro_batches(const Sizes& shards, std::int64_t least, PipelineOptions options = {}) {
  return micro_batches_for(options, 3, shards, [least](std::int64_t samples) { return samples >= least; });
}

TEST(PipelinePlan, four_micro_batches_a_stage_are_the_default_where_the_model_takes_one_sample) {
  EXPECT_EQ(micro_batches({64}, 1), 12);
  EXPECT_EQ(micro_batches({12}, 1), 12);
  EXPECT_EQ(micro_batches({5, 1}, 1), 12) << "a batch of fewer samples is cut into fewer";
}

TEST(PipelinePlan, fewer_are_the_default_where_the_model_declines_the_smallest_of_any_batch) {
  EXPECT_EQ(micro_batches({12}, 2), 6);
  EXPECT_EQ(micro_batches({13}, 2), 6) << "of two and three samples";
  EXPECT_EQ(micro_batches({64}, 2), 12);
  EXPECT_EQ(micro_batches({64, 5}, 2), 2) << "the last batch counts too";
  EXPECT_EQ(micro_batches({12}, 12), 1);
  EXPECT_EQ(micro_batches({12, 1}, 2), 1) << "none would do: the last batch is then refused by itself";
}

TEST(PipelinePlan, interleaved_stages_have_a_multiple_of_them_by_default) {
  const PipelineOptions interleaved{.schedule = ScheduleKind::interleaved, .virtual_stages = 2};
  EXPECT_EQ(micro_batches({12}, 1, interleaved), 12);
  EXPECT_EQ(micro_batches({12}, 2, interleaved), 6);
  EXPECT_EQ(micro_batches({20, 8}, 2, interleaved), 3);
}

TEST(PipelinePlan, a_number_that_is_given_is_taken_as_it_is) { EXPECT_EQ(micro_batches({12}, 2, {.micro_batches = 12}), 12); }

TEST(PipelinePlan, shards_are_the_smallest_and_the_largest_of_each_batch_without_empty_ones) {
  const Sizes batches{12, 3};
  EXPECT_EQ(shards_of(batches, 1), (Sizes{12, 3}));
  EXPECT_EQ(shards_of(batches, 5), (Sizes{2, 3, 1}));
}

}  // namespace
}  // namespace gemel::cli
