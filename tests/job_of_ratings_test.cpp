// Jobs that train on ratings: every parallel style draws, loses and finds as one process does.
#include "tests/job.h"
#include "tests/ratings_folder.h"

namespace gemel::testing {
namespace {

class JobOfRatings : public Job {
 protected:
  void SetUp() override {
    Job::SetUp();
    write_ratings(folder(), 23, 64, 5);
  }
  Json epoch(const char* log) const {
    for (const Json& e : events(log))
      if (e["event"] == "epoch") return e;
    return {};
  }
  /// Of one process, and of a job of so many ranks.
  void expect_losses_of_one_process(int ranks, const std::vector<std::string>& common, const std::vector<std::string>& style) {
    launcher_.clear();
    const std::vector<std::string> alone = with_ratings(folder(), {"train", "--batch-size", "70", "--epochs", "1", "--dropout", "0.1"}, common);
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
    ASSERT_EQ(expected.size(), 7u) << "23 users with 4 interactions each to learn from, and 4 other items beside each";
    ASSERT_EQ(got.size(), 7u);
    for (std::size_t i = 0; i < 7; ++i) EXPECT_NEAR(got[i], expected[i], 1e-5 * expected[i]) << style[1] << ", step " << i + 1;
    const Json first = epoch("alone"), second = epoch("job");
    EXPECT_GT(first["val_loss"], 0);
    EXPECT_NEAR(second["val_loss"].get<double>(), first["val_loss"].get<double>(), 1e-5 * first["val_loss"].get<double>());
    for (const char* metric : {"val_hit_rate_at_10", "val_ndcg_at_10"}) {
      ASSERT_TRUE(first.contains(metric) && second.contains(metric)) << metric;
      EXPECT_NEAR(second[metric].get<double>(), first[metric].get<double>(), 1e-9) << style[1] << ": places are whole numbers";
    }
    std::filesystem::remove_all(folder() / "alone");
    std::filesystem::remove_all(folder() / "job");
  }
};

TEST_F(JobOfRatings, whose_ranks_share_batches_draws_the_items_of_one_process) {
  expect_losses_of_one_process(2, {}, {"--parallel", "ddp"});
  expect_losses_of_one_process(3, {"--frontend", "graph", "--accumulate", "2"}, {"--parallel", "horovod"});
}

TEST_F(JobOfRatings, whose_ranks_are_stages_draws_the_items_of_one_process) {
  expect_losses_of_one_process(2, {}, {"--parallel", "pipeline", "--microbatches", "3"});
  expect_losses_of_one_process(2, {"--frontend", "graph"}, {"--parallel", "pipeline", "--microbatches", "4"});
}

}  // namespace
}  // namespace gemel::testing
