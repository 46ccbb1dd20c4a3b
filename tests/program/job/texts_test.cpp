// Jobs that train on texts: every parallel style gives the losses of one process.
#include "tests/support/datasets/texts_folder.h"
#include "tests/support/program/job_fixture.h"

namespace gemel::testing {
namespace {

class JobOfTexts : public Job {
 protected:
  void SetUp() override {
    Job::SetUp();
    write_texts(folder(), 40, 9);
  }
  void expect_training_of_one_process(int ranks, const Words& how, const Words& style) {
    const Words command{"train", "--batch-size", "12", "--epochs",      "2",      "--optimizer", "adamw", "--weight-decay",
                        "0.1",   "--clip-norm",  "1",  "--lr-schedule", "linear", "--warmup",    "2"};
    expect_losses_of_one_process(ranks, with_texts(folder(), model_, command, how), style);
    EXPECT_EQ(losses("job").size(), 8u);
  }

  std::string model_ = "bert";
};

TEST_F(JobOfTexts, whose_ranks_share_batches_draws_the_masks_of_one_process) {
  expect_training_of_one_process(2, {"--length-buckets", "on"}, {"--parallel", "ddp"});
  if (is_full_run()) expect_training_of_one_process(3, {"--frontend", "graph"}, {"--parallel", "horovod"});
}

TEST_F(JobOfTexts, moves_the_rows_of_embeddings_that_some_rank_meets) {
  expect_training_of_one_process(2, {"--sparse-embeddings", "--frontend", "graph", "--accumulate", "2"}, {"--parallel", "ddp"});
  if (is_full_run()) expect_training_of_one_process(3, {"--sparse-embeddings"}, {"--parallel", "horovod"});
}

TEST_F(JobOfTexts, whose_ranks_are_stages_draws_the_masks_of_one_process) {
  if (is_full_run()) expect_training_of_one_process(2, {"--length-buckets", "on"}, {"--parallel", "pipeline", "--microbatches", "3"});
  expect_training_of_one_process(2, {"--frontend", "graph"}, {"--parallel", "pipeline", "--microbatches", "4"});
}

TEST_F(JobOfTexts, that_train_an_lstm_draws_the_masks_of_one_process) {
  model_ = "lstm_classifier";
  expect_training_of_one_process(2, {"--length-buckets", "on"}, {"--parallel", "ddp"});
  if (is_full_run()) expect_training_of_one_process(2, {"--frontend", "graph"}, {"--parallel", "pipeline", "--microbatches", "3"});
}

}  // namespace
}  // namespace gemel::testing
