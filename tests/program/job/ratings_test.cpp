// Jobs that train on ratings: every parallel style draws, loses and finds as one process does.
#include "tests/support/datasets/ratings_folder.h"
#include "tests/support/program/job_fixture.h"

namespace gemel::testing {
namespace {

class JobOfRatings : public Job {
 protected:
  void SetUp() override {
    Job::SetUp();
    write_ratings(folder(), 23, 64, 5);
  }
  /// Its losses, and what it finds.
  void expect_training_of_one_process(int ranks, const Words& how, const Words& style) {
    expect_losses_of_one_process(ranks, with_ratings(folder(), {"train", "--batch-size", "70", "--epochs", "1", "--dropout", "0.1"}, how), style);
    ASSERT_EQ(losses("job").size(), 7u) << "23 users with 4 interactions each to learn from, and 4 other items beside each";
    const Json alone = last_epoch("alone"), job = last_epoch("job");
    for (const char* metric : {"val_hit_rate_at_10", "val_ndcg_at_10"}) {
      ASSERT_TRUE(alone.contains(metric) && job.contains(metric)) << metric;
      EXPECT_NEAR(job[metric].get<double>(), alone[metric].get<double>(), 1e-9) << style[1] << ": places are whole numbers";
    }
  }
};

TEST_F(JobOfRatings, whose_ranks_share_batches_draws_the_items_of_one_process) {
  expect_training_of_one_process(2, {}, {"--parallel", "ddp"});
  if (is_full_run()) expect_training_of_one_process(3, {"--frontend", "graph", "--accumulate", "2"}, {"--parallel", "horovod"});
}

TEST_F(JobOfRatings, whose_ranks_are_stages_draws_the_items_of_one_process) {
  if (is_full_run()) expect_training_of_one_process(2, {}, {"--parallel", "pipeline", "--microbatches", "3"});
  expect_training_of_one_process(2, {"--frontend", "graph"}, {"--parallel", "pipeline", "--microbatches", "4"});
}

}  // namespace
}  // namespace gemel::testing
