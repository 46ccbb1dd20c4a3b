// Jobs that train a language model, whose head is its table of tokens: every parallel style gives the losses of one process.
#include "tests/job.h"
#include "tests/running_text.h"

namespace gemel::testing {
namespace {

class JobOfLanguageModels : public Job {
 protected:
  void SetUp() override {
    Job::SetUp();
    write_running_text(folder(), 20);
  }
  std::vector<double> losses_of(int ranks, const std::vector<std::string>& more) {
    std::vector<std::string> all = with_running_text(folder(), "train", {"--batch-size", "5", "--optimizer", "adamw", "--lr", "3e-3", "--clip-norm", "1", "--steps", "6", "--log-dir", in_folder("log")});
    all.insert(all.end(), more.begin(), more.end());
    launcher_.clear();
    if (ranks > 1) on_ranks(ranks);
    const Outcome o = finish(ranks > 1 ? start_job(all) : start(all));
    EXPECT_EQ(o.status, 0) << o.err;
    const auto out = losses("log");
    std::filesystem::remove_all(folder() / "log");
    return out;
  }
};

TEST_F(JobOfLanguageModels, gives_the_losses_of_one_process) {
  const auto expected = losses_of(1, {});
  ASSERT_EQ(expected.size(), 6u);
  const std::vector<std::pair<int, std::vector<std::string>>> jobs{{2, {"--parallel", "ddp"}},
                                                                  {3, {"--parallel", "horovod", "--frontend", "graph"}},
                                                                  {2, {"--parallel", "pipeline", "--microbatches", "2"}}};
  for (const auto& [ranks, style] : jobs) {
    const auto got = losses_of(ranks, style);
    ASSERT_EQ(got.size(), 6u) << style[1];
    for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(got[i], expected[i], 1e-5 * expected[i]) << style[1] << ", step " << i + 1;
  }
}

}  // namespace
}  // namespace gemel::testing
