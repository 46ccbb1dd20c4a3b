// Jobs of one process: its devices, or parts of a CPU, each a rank that is a thread.
#include <limits>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "datasets/formats/npy.h"
#include "engine/base/resource_limits.h"
#include "engine/base/spec.h"
#include "tests/support/device/sub_devices.h"
#include "tests/support/device/test_device.h"
#include "tests/support/program/job_fixture.h"

namespace gemel::testing {
namespace {

/// A job in one process, on two parts of its CPU.
class JobOfDevices : public Job {
 protected:
  void SetUp() override {
    if (allowed_cores().count() < 2) GTEST_SKIP() << "one core has no parts";
    if (!divides(test_device())) GTEST_SKIP() << "needs a device that divides";
  }
  static std::vector<std::string> two(const std::string& style) { return {"--parallel", style, "--devices", "0.0,0.1"}; }
  Outcome perceptron(const std::string& log, const std::vector<std::string>& more, const char* batch = "12") {
    std::vector<std::string> all{"train",    "--model", "perceptron",  "--limit",  "20",        "--batch-size", batch,
                                 "--epochs", "2",       "--optimizer", "momentum", "--log-dir", in_folder(log)};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  /// With --profile. @return pairs of rank and kind of work in the trace
  std::size_t tracks_of(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--profile", in_folder("trace.json")});
    const Outcome o = run(arguments);
    EXPECT_EQ(o.status, 0) << o.err;
    std::set<std::pair<int, std::string>> out;
    const Json trace = Json::parse(read_text(folder() / "trace.json"));
    for (const Json& e : trace["traceEvents"])
      if (e["ph"] == "X") out.emplace(e["pid"], e["cat"]);
    return out.size();
  }
};

TEST_F(JobOfDevices, trains_as_one_process) {
  ASSERT_EQ(perceptron("alone", {}).status, 0);
  for (const std::string style : {"mirrored", "dataparallel", "pipeline"}) {
    const Outcome o = perceptron(style, two(style));
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(std::ranges::count_if(lines_of(o.out), [](const std::string& l) { return l.starts_with("epoch 2:"); }), 1) << "one replica speaks: " << o.out;
    ASSERT_EQ(losses(style).size(), 4u);
    expect_losses_as_alone(style);
    EXPECT_EQ(events(style).front()["ranks"], 2);
    EXPECT_TRUE(events(style)[1].contains("exposed_comm_ms"));
    EXPECT_EQ(events(style).front()["each_rank"].size(), 2u);
  }
}

TEST_F(JobOfDevices, a_pipeline_has_at_most_as_many_micro_batches_as_normalisation_accepts_and_keeps_their_number) {
  if (!is_full_run()) GTEST_SKIP() << "with --full: how many they may be is tested by itself (PipelinePlan)";
  Words arguments{"train", "--model", "resnet18", "--limit", "10", "--batch-size", "6", "--eval-every", "0"};
  const std::vector<std::string> stages = two("pipeline");
  arguments.insert(arguments.end(), stages.begin(), stages.end());
  const auto parts = [&](const Outcome& o) {
    const std::string begin = "pipeline: 1f1b of ";
    const std::size_t found = o.err.find(begin);
    return found == std::string::npos ? '?' : o.err[found + begin.size()];
  };
  for (const char* given : {"1", "2"}) {
    const std::string saved = in_folder(given);
    const Outcome first = run(joined(arguments, {"--checkpoint-dir", saved, "--epochs", "1", "--microbatches", given}));
    ASSERT_EQ(first.status, 0) << first.err;
    const Outcome second = run(joined(arguments, {"--checkpoint-dir", saved, "--epochs", "2", "--resume", "auto"}));
    ASSERT_EQ(second.status, 0) << second.err;
    EXPECT_EQ(parts(second), *given) << "a run that goes on keeps its number: " << second.err;
  }
  const Outcome o = run(arguments);
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(parts(o) == '1' || parts(o) == '2') << "of at least two samples, of the last four too: " << o.err;
}

TEST_F(JobOfDevices, evaluates_as_one_process_and_profiles_both) {
  const std::string weights = in_folder("w.safetensors");
  ASSERT_EQ(perceptron("saved", {"--save", weights}).status, 0);
  const std::vector<std::string> eval{"eval", "--model", "perceptron", "--weights", weights, "--limit", "7", "--batch-size", "3"}, parts = two("mirrored");
  auto eval_shared = eval;
  eval_shared.insert(eval_shared.end(), parts.begin(), parts.end());
  const Outcome whole = run(eval), shards = run(eval_shared);  // the last batch leaves the second replica none
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_EQ(shards.out, whole.out) << shards.err;
  EXPECT_EQ(tracks_of(eval_shared), 2u) << "kernels of two ranks";
  const std::vector<std::string> training{"train", "--model", "perceptron", "--limit", "20", "--batch-size", "12"};
  const std::vector<std::string> bench{"bench", "train", "--model", "perceptron", "--batch-size", "8", "--frontend", "eager", "--warmup", "1", "--runs", "3"};
  for (const std::vector<std::string>& command : {training, bench})
    for (const std::string style : {"mirrored", "pipeline"}) {
      std::vector<std::string> all = command;
      for (const std::string& word : two(style)) all.push_back(word);
      EXPECT_EQ(tracks_of(all), 4u) << style << ": kernels and communication of two ranks";
    }
}

TEST_F(JobOfDevices, tells_the_error_of_one_and_not_what_comes_of_it) {
  constexpr std::size_t kPixels = 3 * 16 * 16;
  std::vector<float> pictures(8 * kPixels, 0.5F);
  pictures.back() = std::numeric_limits<float>::quiet_NaN();  // of the second replica's shard
  const std::vector<std::int64_t> labels{0, 1, 2, 3, 4, 5, 6, 7};
  datasets::write_npy(folder() / "images.npy", f32({8, 3, 16, 16}), std::as_bytes(std::span(pictures)));
  datasets::write_npy(folder() / "labels.npy", i64({8}), std::as_bytes(std::span(labels)));
  std::vector<std::string> words{"train",           "--model",   "perceptron", "--dataset",    "npy", "--data",
                                 folder().string(), "--shuffle", "off",        "--batch-size", "8",   "--detect-anomaly"};
  for (const std::string& word : two("mirrored")) words.push_back(word);
  const Outcome o = run(words);
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(lines_with("gemel: ", o), 1) << o.err;
  EXPECT_EQ(lines_with("has nan at element 0 on rank 1", o), 1) << o.err;
}

TEST_F(JobOfDevices, of_stages_names_the_operator_that_made_a_nan_and_no_other) {
  std::vector<std::string> made{"--lr", "1e30", "--detect-anomaly", "--microbatches", "2"};
  for (const std::string& word : two("pipeline")) made.push_back(word);
  const Outcome o = perceptron("nan", made);
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(lines_with("; the first operator that made a NaN: ", o), 1) << o.err;
  EXPECT_EQ(lines_with(" on rank ", o), 1) << o.err;
  std::vector<float> pictures(std::size_t{8} * 3 * 16 * 16, 0.5F);
  pictures.front() = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::int64_t> labels{0, 1, 2, 3, 4, 5, 6, 7};
  datasets::write_npy(folder() / "images.npy", f32({8, 3, 16, 16}), std::as_bytes(std::span(pictures)));
  datasets::write_npy(folder() / "labels.npy", i64({8}), std::as_bytes(std::span(labels)));
  std::vector<std::string> words{"train", "--model", "perceptron", "--dataset", "npy", "--data", folder().string(), "--batch-size", "8", "--detect-anomaly"};
  for (const std::string& word : two("pipeline")) words.push_back(word);
  const Outcome had = run(words);
  EXPECT_EQ(had.status, 1);
  EXPECT_EQ(lines_with("; no operator made a NaN: ", had), 1) << had.err;
}

TEST_F(JobOfDevices, that_cannot_run_is_refused_in_one_line) {
  const Outcome missing = perceptron("none", {"--parallel", "mirrored", "--devices", "0.0,nothere:0"});
  EXPECT_EQ(missing.status, 2);
  EXPECT_NE(missing.err.find("gemel: platform: 'nothere' is not found"), std::string::npos) << missing.err;
  EXPECT_EQ(perceptron("none", {"--parallel", "mirrored", "--devices", "0.0,"}).err,
            "gemel: --devices: '0.0,' has ''; accepted: INDEX, INDEX.PART or PLATFORM:DEVICE, with commas between\n");
  EXPECT_EQ(perceptron("none", {"--devices", "0"}).err, "gemel: --devices: it is given without --parallel; accepted: --device for one device\n");
  auto synchronised = two("mirrored");
  synchronised.push_back("--sync-bn");
  EXPECT_EQ(perceptron("none", synchronised, "19").err,
            "gemel: --sync-bn: the last batch of an epoch, 1 of 20 samples, leaves some of 2 ranks none; accepted: another --batch-size or --limit\n");
}

}  // namespace
}  // namespace gemel::testing
