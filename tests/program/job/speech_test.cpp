// Jobs that train on speech: the losses and the errors of words of one process, whose batches have rows of other lengths.
#include "tests/support/datasets/speech_folder.h"
#include "tests/support/program/job_fixture.h"

namespace gemel::testing {
namespace {

class JobOfSpeech : public Job {
 protected:
  void SetUp() override {
    Job::SetUp();
    write_speech(folder(), 23, 7);
  }
  /// Its losses and its errors.
  void expect_training_of_one_process(int ranks, const Words& how, const Words& style) {
    expect_losses_of_one_process(ranks, with_speech(folder(), {"train", "--batch-size", "8", "--epochs", "2", "--dropout", "0.1"}, how), style);
    ASSERT_EQ(losses("job").size(), 6u);
    const Json alone = last_epoch("alone"), job = last_epoch("job");
    for (const char* metric : {"val_wer", "val_cer"})
      EXPECT_NEAR(job[metric].get<double>(), alone[metric].get<double>(), 1e-9) << style[1] << ": errors are whole numbers";
  }
};

TEST_F(JobOfSpeech, whose_ranks_share_batches_loses_what_one_process_does) {
  expect_training_of_one_process(2, {"--length-buckets", "on"}, {"--parallel", "ddp"});
  if (is_full_run()) expect_training_of_one_process(2, {"--length-buckets", "on", "--frontend", "graph", "--accumulate", "2"}, {"--parallel", "horovod"});
}

TEST_F(JobOfSpeech, whose_ranks_are_stages_loses_what_one_process_does) {
  expect_training_of_one_process(2, {}, {"--parallel", "pipeline", "--microbatches", "4"});
}

}  // namespace
}  // namespace gemel::testing
