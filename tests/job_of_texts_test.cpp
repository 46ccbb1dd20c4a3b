// Jobs that train on texts: every parallel style gives the losses of one process.
#include <array>

#include "tests/job.h"
#include "tests/texts_folder.h"

namespace gemel::testing {
namespace {

class JobOfTexts : public Job {
 protected:
  void SetUp() override {
    Job::SetUp();
    write_texts(folder(), 40, 9);
  }
  std::vector<std::string> training(const std::vector<std::string>& more) const {
    std::vector<std::string> all = with_texts(folder(), model_, {"train", "--batch-size", "12", "--optimizer", "adamw", "--weight-decay", "0.1", "--clip-norm", "1", "--lr-schedule", "linear", "--warmup", "2"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// Of one process, and of a job of so many ranks.
  void expect_losses_of_one_process(int ranks, const std::vector<std::string>& common, const std::vector<std::string>& style) {
    launcher_.clear();
    std::vector<std::string> alone = training(common), job = alone;
    alone.insert(alone.end(), {"--log-dir", in_folder("alone")});
    const Outcome one = run(alone);
    ASSERT_EQ(one.status, 0) << one.err;
    on_ranks(ranks);
    job.insert(job.end(), {"--log-dir", in_folder("job")});
    job.insert(job.end(), style.begin(), style.end());
    const Outcome all = finish(start_job(job));
    ASSERT_EQ(all.status, 0) << all.err;
    const auto expected = losses("alone"), got = losses("job");
    ASSERT_EQ(got.size(), 8u);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(got[i], expected[i], 1e-5 * expected[i]) << style[1] << ", step " << i + 1;
    const auto validation = [this](const char* log) {
      for (const Json& e : events(log))
        if (e["event"] == "epoch") return e["val_loss"].get<double>();
      return 0.0;
    };
    EXPECT_GT(validation("alone"), 0);
    EXPECT_NEAR(validation("job"), validation("alone"), 1e-5 * validation("alone"));
    std::filesystem::remove_all(folder() / "alone");
    std::filesystem::remove_all(folder() / "job");
  }

  std::string model_ = "bert";
};

TEST_F(JobOfTexts, whose_ranks_share_batches_draws_the_masks_of_one_process) {
  expect_losses_of_one_process(2, {"--epochs", "2", "--length-buckets", "on"}, {"--parallel", "ddp"});
  expect_losses_of_one_process(3, {"--epochs", "2", "--frontend", "graph"}, {"--parallel", "horovod"});
}

TEST_F(JobOfTexts, moves_the_rows_of_embeddings_that_some_rank_meets) {
  expect_losses_of_one_process(2, {"--epochs", "2", "--sparse-embeddings", "--frontend", "graph", "--accumulate", "2"}, {"--parallel", "ddp"});
  expect_losses_of_one_process(3, {"--epochs", "2", "--sparse-embeddings"}, {"--parallel", "horovod"});
}

TEST_F(JobOfTexts, whose_ranks_are_stages_draws_the_masks_of_one_process) {
  expect_losses_of_one_process(2, {"--epochs", "2", "--length-buckets", "on"}, {"--parallel", "pipeline", "--microbatches", "3"});
  expect_losses_of_one_process(2, {"--epochs", "2", "--frontend", "graph"}, {"--parallel", "pipeline", "--microbatches", "4"});
}

TEST_F(JobOfTexts, that_train_an_lstm_draws_the_masks_of_one_process) {
  model_ = "lstm_classifier";
  expect_losses_of_one_process(2, {"--epochs", "2", "--length-buckets", "on"}, {"--parallel", "ddp"});
  expect_losses_of_one_process(2, {"--epochs", "2", "--frontend", "graph"}, {"--parallel", "pipeline", "--microbatches", "3"});
}

}  // namespace
}  // namespace gemel::testing
