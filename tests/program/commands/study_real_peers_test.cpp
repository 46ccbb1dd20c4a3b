// gemel study with the frameworks themselves, in the environment that GEMEL_TEST_PEERS names.
#include <cstdlib>
#include <fstream>

#include "tests/support/program/study_peers_fixture.h"

namespace gemel::testing {
namespace {

/// The frameworks themselves, on a small model.
TEST_F(StudyPeers, that_are_real_agree) {
  const char* environment = ::getenv("GEMEL_TEST_PEERS");
  if (!environment) GTEST_SKIP() << "GEMEL_TEST_PEERS names no environment of --install-peers";
  const std::string study = file(std::string(kPyTorch) + "  { name = \"tensorflow\", peer = \"tensorflow\" },\n");
  ASSERT_EQ(run({"study", "run", study, "--out", in_folder("r"), "--peers", environment}).status, 0);
  auto all = runs();
  for (const char* name : {"train/pytorch", "infer/pytorch", "train/tensorflow", "infer/tensorflow"}) {
    EXPECT_EQ(all[name][0]["status"], "ok") << all[name][0]["reason"];
    EXPECT_LE(all[name][0]["agreement"]["outputs"].get<double>(), 1e-5);
  }
}

TEST_F(StudyPeers, that_are_real_agree_on_texts) {
  const char* environment = ::getenv("GEMEL_TEST_PEERS");
  if (!environment) GTEST_SKIP() << "GEMEL_TEST_PEERS names no environment of --install-peers";
  const std::string study = file_of_texts(std::string(kPyTorch) + R"(
  { name = "tensorflow", peer = "tensorflow" },
  { name = "two ranks", peer = "pytorch", parallel = "ddp", np = 2, steps = 1 },
  { name = "two ranks of tensorflow", peer = "tensorflow", parallel = "ddp", np = 2, steps = 1 },
  { name = "buckets", peer = "pytorch", length-buckets = "on" },
)");
  ASSERT_EQ(run({"study", "run", study, "--out", in_folder("r"), "--peers", environment, "--data", in_folder("data")}).status, 0);
  auto all = runs();
  for (const char* name : {"pytorch", "tensorflow", "two ranks", "two ranks of tensorflow"}) {
    EXPECT_EQ(all[name][0]["status"], "ok") << all[name][0]["reason"];
    EXPECT_LE(all[name][0]["agreement"]["outputs"].get<double>(), 1e-5);
    EXPECT_LE(all[name][0]["agreement"]["losses"].get<double>(), 1e-5);
  }
  EXPECT_EQ(all["buckets"][0]["reason"], "pytorch: length-buckets is on; accepted: off");
}

TEST_F(StudyPeers, that_are_real_train_pipelines_as_gemel_does) {
  const char* environment = ::getenv("GEMEL_TEST_PEERS");
  if (!environment) GTEST_SKIP() << "GEMEL_TEST_PEERS names no environment of --install-peers";
  std::ofstream(folder() / "pipelines.toml") << R"(
title = "Pipelines"
question = "Which?"
most_repeats = 1
spec = { command = "bench train", model = "resnet18", input = "3x32x32", batch-size = 16, warmup = 1, runs = 3, parallel = "pipeline", devices = "0.0,0.1", microbatches = 4 }
[[grid]]
[grid.axes]
form = [
  { name = "gpipe", peer = "pytorch", pipeline-schedule = "gpipe" },
  { name = "1f1b", peer = "pytorch", pipeline-schedule = "1f1b" },
  { name = "interleaved", peer = "pytorch", pipeline-schedule = "interleaved" },
]
[[table]]
name = "times"
caption = "Times"
rows = ["form"]
)";
  ASSERT_EQ(run({"study", "run", in_folder("pipelines.toml"), "--out", in_folder("r"), "--peers", environment}).status, 0);
  auto all = runs();
  for (const char* name : {"gpipe", "1f1b"}) {
    EXPECT_EQ(all[name][0]["status"], "ok") << all[name][0]["reason"];
    EXPECT_LE(all[name][0]["agreement"]["outputs"].get<double>(), 1e-5);
    EXPECT_LE(all[name][0]["agreement"]["losses"].get<double>(), 1e-5);
  }
  EXPECT_EQ(all["interleaved"][0]["reason"], "pytorch: pipeline-schedule is interleaved; accepted: gpipe, 1f1b");
}

}  // namespace
}  // namespace gemel::testing
