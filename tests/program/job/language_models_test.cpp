// Jobs that train a language model, whose head is its table of tokens: every parallel style gives the losses of one process.
#include "tests/support/datasets/running_text_folder.h"
#include "tests/support/program/job_fixture.h"

namespace gemel::testing {
namespace {

class JobOfLanguageModels : public Job {
 protected:
  void SetUp() override {
    Job::SetUp();
    write_running_text(folder(), 20);
  }
};

TEST_F(JobOfLanguageModels, gives_the_losses_of_one_process) {
  const Words command = with_running_text(folder(), "train", {"--batch-size", "5", "--optimizer", "adamw", "--lr", "3e-3", "--clip-norm", "1", "--steps", "6"});
  std::vector<std::pair<int, Words>> jobs{{2, {"--parallel", "ddp"}}, {2, {"--parallel", "pipeline", "--microbatches", "2", "--frontend", "graph"}}};
  if (is_full_run()) jobs.push_back({3, {"--parallel", "horovod", "--frontend", "graph"}});
  for (const auto& [ranks, style] : jobs) {
    expect_losses_of_one_process(ranks, command, style);
    EXPECT_EQ(losses("job").size(), 6u) << style[1];
  }
}

}  // namespace
}  // namespace gemel::testing
