// Jobs that train on translations: every parallel style loses as one process does, and translates what it does.
#include "tests/job.h"
#include "tests/translations_folder.h"

namespace gemel::testing {
namespace {

class JobOfTranslations : public Job {
 protected:
  void SetUp() override {
    Job::SetUp();
    write_translations(folder(), 40, 9);
  }
  /// Of one process, and of a job of so many ranks.
  void expect_losses_of_one_process(int ranks, const std::vector<std::string>& common, const std::vector<std::string>& style) {
    launcher_.clear();
    const std::vector<std::string> alone = with_translations(folder(), {"train", "--batch-size", "12", "--epochs", "2", "--eval-every", "2", "--dropout", "0.1", "--label-smoothing", "0.1"}, common);
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
    ASSERT_EQ(expected.size(), 8u);
    ASSERT_EQ(got.size(), 8u);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(got[i], expected[i], 1e-5 * expected[i]) << style[1] << ", step " << i + 1;
    const Json first = events("alone").at(events("alone").size() - 2), second = events("job").at(events("job").size() - 2);
    EXPECT_NEAR(second.at("val_loss").get<double>(), first.at("val_loss").get<double>(), 1e-5 * first.at("val_loss").get<double>());
    for (const char* metric : {"val_bleu", "val_token_accuracy"}) {
      ASSERT_TRUE(first.contains(metric));
      ASSERT_EQ(second.contains(metric), style[1] != "pipeline") << "no stage has the whole model";
      if (!second.contains(metric)) continue;
      EXPECT_NEAR(second[metric].get<double>(), first[metric].get<double>(), 1e-9) << style[1] << ": tokens are whole numbers";
    }
    std::filesystem::remove_all(folder() / "alone");
    std::filesystem::remove_all(folder() / "job");
  }
};

TEST_F(JobOfTranslations, whose_ranks_share_batches_translates_as_one_process) {
  expect_losses_of_one_process(2, {"--length-buckets", "on"}, {"--parallel", "ddp"});
  expect_losses_of_one_process(2, {"--frontend", "graph"}, {"--parallel", "horovod"});
}

TEST_F(JobOfTranslations, whose_ranks_are_stages_loses_as_one_process) {
  expect_losses_of_one_process(2, {}, {"--parallel", "pipeline", "--microbatches", "3"});
  expect_losses_of_one_process(2, {"--frontend", "graph"}, {"--parallel", "pipeline", "--microbatches", "4"});
}

}  // namespace
}  // namespace gemel::testing
