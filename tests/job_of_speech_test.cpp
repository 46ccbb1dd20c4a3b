// Jobs that train on speech: the losses and the errors of words of one process, whose batches have rows of other lengths.
#include "tests/job.h"
#include "tests/speech_folder.h"

namespace gemel::testing {
namespace {

class JobOfSpeech : public Job {
 protected:
  void SetUp() override {
    Job::SetUp();
    write_speech(folder(), 23, 7);
  }
  Json epoch(const char* log) const {
    for (const Json& e : events(log))
      if (e["event"] == "epoch") return e;
    return {};
  }
  /// Of one process, and of a job of so many ranks.
  void expect_losses_of_one_process(int ranks, const std::vector<std::string>& common, const std::vector<std::string>& style) {
    launcher_.clear();
    const std::vector<std::string> alone = with_speech(folder(), {"train", "--batch-size", "8", "--epochs", "2", "--dropout", "0.1"}, common);
    const auto logged = [&](const std::string& log, const std::vector<std::string>& more = {}) {
      std::vector<std::string> all = alone;
      all.insert(all.end(), {"--log-dir", in_folder(log)});
      all.insert(all.end(), more.begin(), more.end());
      return all;
    };
    const Outcome one = run(logged("alone"));
    ASSERT_EQ(one.status, 0) << one.err;
    on_ranks(ranks);
    const Outcome all = finish(start_job(logged("job", style)));
    ASSERT_EQ(all.status, 0) << all.err;
    const auto expected = losses("alone"), got = losses("job");
    ASSERT_EQ(expected.size(), 6u);
    ASSERT_EQ(got.size(), 6u);
    for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(got[i], expected[i], 1e-5 * expected[i]) << style[1] << ", step " << i + 1;
    const Json first = epoch("alone"), second = epoch("job");
    EXPECT_NEAR(second["val_loss"].get<double>(), first["val_loss"].get<double>(), 1e-5 * first["val_loss"].get<double>());
    for (const char* metric : {"val_wer", "val_cer"}) EXPECT_NEAR(second[metric].get<double>(), first[metric].get<double>(), 1e-9) << style[1] << ": errors are whole numbers";
    std::filesystem::remove_all(folder() / "alone");
    std::filesystem::remove_all(folder() / "job");
  }
};

TEST_F(JobOfSpeech, whose_ranks_share_batches_loses_what_one_process_does) {
  expect_losses_of_one_process(2, {"--length-buckets", "on"}, {"--parallel", "ddp"});
  expect_losses_of_one_process(2, {"--length-buckets", "on", "--frontend", "graph", "--accumulate", "2"}, {"--parallel", "horovod"});
}

TEST_F(JobOfSpeech, whose_ranks_are_stages_loses_what_one_process_does) {
  expect_losses_of_one_process(2, {}, {"--parallel", "pipeline", "--microbatches", "4"});
}

}  // namespace
}  // namespace gemel::testing
