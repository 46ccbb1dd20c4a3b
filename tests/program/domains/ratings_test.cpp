// Recommendation from a raw file to its metrics: gemel train, eval, summary and bench of models that take ratings.
#include <cmath>

#include "tests/support/datasets/ratings_folder.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

class RatingsProgram : public CommandLine {
 protected:
  void SetUp() override { write_ratings(folder()); }
  Words told(const Words& command, const Words& more = {}) const { return with_ratings(folder(), command, more); }
  Words training(const Words& more) const { return joined(told({"train", "--batch-size", "128", "--lr", "1e-2"}), more); }
};

/// By chance one in ten is found among the first ten of a hundred.
TEST_F(RatingsProgram, learns_and_evaluates_alike_in_both_front_ends) {
  for (const std::string frontend : {"eager", "graph"}) {
    const Outcome o =
        run(training({"--epochs", "4", "--frontend", frontend, "--log-dir", in_folder(frontend), "--save", in_folder(frontend + ".safetensors")}));
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_NE(o.err.find("11400 samples of 120 users and 128 items"), std::string::npos) << o.err;
  }
  ASSERT_NO_FATAL_FAILURE(expect_first_losses_alike_in_both_front_ends(4 * 90));
  EXPECT_NEAR(losses("eager")[0], std::log(2.0), 0.01) << "before it has learnt anything";
  for (const std::string frontend : {"eager", "graph"}) {
    const Json last = last_epoch(frontend);
    EXPECT_GT(last["val_hit_rate_at_10"], 0.8);
    EXPECT_FALSE(last.contains("train_hit_rate_at_10"));
    const Outcome eval = run(told({"eval"}, {"--weights", in_folder(frontend + ".safetensors"), "--batch-size", "7", "--frontend", frontend}));
    ASSERT_EQ(eval.status, 0) << eval.err;
    EXPECT_EQ(number_after(eval.out, "samples "), 120) << eval.out;
    expect_evaluated_as(last, eval, {"loss", "hit_rate_at_10", "ndcg_at_10"});
  }
}

TEST_F(RatingsProgram, resumes_to_the_same_bits_with_items_that_are_drawn) {
  const auto with = [&](const Words& more) { return joined(training({"--epochs", "6", "--limit", "2000", "--dropout", "0.2"}), more); };
  ASSERT_EQ(run(with({"--save", in_folder("whole.safetensors")})).status, 0);
  const Words resumed = with({"--checkpoint-dir", in_folder("c"), "--checkpoint-every", "1", "--resume", "auto", "--save", in_folder("resumed.safetensors")});
  for (const int step : {3, 25}) kill_after(step, start(resumed));
  const Outcome last = run(resumed);
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_GE(number_after(last.err, "resume: going on after step "), 25) << last.err;
  EXPECT_TRUE(read_text(folder() / "whole.safetensors") == read_text(folder() / "resumed.safetensors")) << "the weights differ";
}

TEST_F(RatingsProgram, of_no_data_trains_measures_and_summarises) {
  const Words model{"--model", "ncf", "--config", "tiny"};
  const auto with = [&](const Words& command, const Words& more) { return run(joined(joined(command, model), more)); };
  const Outcome train = with({"train"}, {"--steps", "3", "--limit", "500"});
  ASSERT_EQ(train.status, 0) << train.err;
  EXPECT_NE(train.err.find("500 samples of 512 users and 256 items"), std::string::npos) << train.err;
  for (const char* work : {"train", "infer"}) {
    const Outcome bench = with({"bench", work}, {"--batch-size", "4,200", "--input", "40x50", "--runs", "2", "--warmup", "1", "--json", in_folder("b.json")});
    ASSERT_EQ(bench.status, 0) << bench.err;
    const Json cases = Json::parse(read_text(folder() / "b.json"))["benchmarks"];
    ASSERT_EQ(cases.size(), 4u);
    EXPECT_EQ(cases[2]["name"], std::string(work) + "/ncf-tiny/200/40x50/eager");
  }
  const Outcome summary = with({"summary"}, {"--batch-size", "8", "--pipeline-stages", "2", "--json"});
  ASSERT_EQ(summary.status, 0) << summary.err;
  const Json told = Json::parse(summary.out);
  EXPECT_EQ(told["layers"][0]["output"], (std::vector<int>{8, 1}));
  EXPECT_EQ(told["parameters"], (6040 + 3706) * 40 + 65 * 32 + 33 * 16 + 17 * 8 + 17);
  EXPECT_EQ(told["pipeline"].size(), 2u);
}

TEST_F(RatingsProgram, that_is_wrong_is_refused_in_one_line) {
  const auto train = [this](const Words& more) { return told({"train"}, more); };
  expect_refused({"train", "--model", "ncf", "--dataset", "ratings"}, 2,
                 "--data: no data path was given for --dataset ratings; accepted: the folder of its ratings.tsv");
  expect_refused({"train", "--model", "ncf", "--data", folder().string()}, 2,
                 "is given with --dataset synthetic, which reads no files; accepted: --dataset ratings with it");
  expect_refused({"train", "--model", "ncf", "--dataset", "sst2"}, 2, "--dataset: 'sst2' is not accepted; accepted: synthetic, ratings");
  expect_refused({"train", "--model", "lenet", "--dataset", "ratings", "--data", folder().string()}, 2, "--dataset: 'ratings' is not accepted");
  const Words others[] = {{"--input", "3x32x32"},   {"--normalize", "standard"}, {"--classes", "2"},
                          {"--vocab", "vocab.txt"}, {"--max-length", "5"},       {"--length-buckets", "on"}};
  for (const Words& other : others) expect_refused(train(other), 2, other[0] + ": it is given with --model ncf, which takes ratings; accepted: without it");
  expect_refused(train({"--recompute", "blocks"}), 2, "--recompute: blocks is given with --model ncf, which has no repeated blocks; accepted: none");
  expect_refused({"infer", "--model", "ncf", "--weights", "w", "--input", "x.npy", "--output", "y.npy"}, 2, "--model: 'ncf' is not accepted; accepted: lenet");
  expect_refused({"summary", "--model", "ncf", "--input", "3x32x32"}, 2,
                 "--input: '3x32x32' is not accepted; accepted: 2 extents from 1 to 100000000, such as 6040x3706");
  expect_refused({"bench", "train", "--model", "ncf", "--input", "4x4", "--batch-size", "64"}, 2,
                 "synthetic: 64 samples of 4 users and 4 items; accepted: at most 20");
  expect_refused({"train", "--model", "ncf", "--config", "huge"}, 2,
                 "--config: 'huge' is neither known nor a file; accepted: tiny, mini, small, base, or a config.json");
  const auto text = [this](std::string_view content) { write_text(folder() / "ratings.tsv", content); };
  text("a\t1\nb 2\n");
  expect_refused(train({}), 1, "ratings.tsv, line 2: it has 1 column; accepted: 2 to 4, with tabs between: user, item, rating, time");
  text("");
  expect_refused(train({}), 1, "ratings.tsv has no lines");
  write_ratings(folder(), 60, 128);
  const Outcome saved = run(training({"--steps", "1", "--save", in_folder("w.safetensors")}));
  ASSERT_EQ(saved.status, 0) << saved.err;
  write_ratings(folder(), 61, 128);
  expect_refused(told({"eval"}, {"--weights", in_folder("w.safetensors")}), 1, "embed_user_GMF.weight");
  std::filesystem::remove(folder() / "ratings.tsv");
  expect_refused(train({}), 1, "ratings.tsv");
}

/// The script that users make ratings up by.
TEST_F(RatingsProgram, reads_what_make_ratings_makes_up) {
  if (std::system("python3 -c 0 2> /dev/null") != 0) GTEST_SKIP() << "python3 is not installed";
  const std::string script = std::string(GEMEL_SOURCE_DIR) + "/datasets/make_ratings";
  ASSERT_EQ(std::system((script + " " + in_folder("made") + " --users 50 --items 96 --groups 3").c_str()), 0);
  const Outcome o = run({"train", "--model", "ncf", "--config", "tiny", "--dataset", "ratings", "--data", in_folder("made"), "--steps", "2"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find(" samples of 50 users and "), std::string::npos) << o.err;
}

}  // namespace
}  // namespace gemel::testing
