// Jobs that train on translations: every parallel style loses as one process does, and translates what it does.
#include "tests/support/datasets/translations_folder.h"
#include "tests/support/program/job_fixture.h"

namespace gemel::testing {
namespace {

class JobOfTranslations : public Job {
 protected:
  void SetUp() override {
    Job::SetUp();
    write_translations(folder(), 40, 9);
  }
  /// Its losses, and its metrics where every rank has the whole model.
  void expect_training_of_one_process(int ranks, const Words& how, const Words& style) {
    const Words command{"train", "--batch-size", "12", "--epochs", "2", "--eval-every", "2", "--dropout", "0.1", "--label-smoothing", "0.1"};
    expect_losses_of_one_process(ranks, with_translations(folder(), command, how), style);
    ASSERT_EQ(losses("job").size(), 8u);
    const Json alone = last_epoch("alone"), job = last_epoch("job");
    for (const char* metric : {"val_bleu", "val_token_accuracy"}) {
      ASSERT_TRUE(alone.contains(metric));
      ASSERT_EQ(job.contains(metric), style[1] != "pipeline") << "no stage has the whole model";
      if (job.contains(metric)) {
        EXPECT_NEAR(job[metric].get<double>(), alone[metric].get<double>(), 1e-9) << style[1] << ": tokens are whole numbers";
      }
    }
  }
};

TEST_F(JobOfTranslations, whose_ranks_share_batches_translates_as_one_process) {
  expect_training_of_one_process(2, {"--length-buckets", "on"}, {"--parallel", "ddp"});
  if (is_full_run()) expect_training_of_one_process(2, {"--frontend", "graph"}, {"--parallel", "horovod"});
}

TEST_F(JobOfTranslations, whose_ranks_are_stages_loses_as_one_process) {
  if (is_full_run()) expect_training_of_one_process(2, {}, {"--parallel", "pipeline", "--microbatches", "3"});
  expect_training_of_one_process(2, {"--frontend", "graph"}, {"--parallel", "pipeline", "--microbatches", "4"});
}

}  // namespace
}  // namespace gemel::testing
