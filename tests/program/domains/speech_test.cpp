// Speech from raw files to transcripts: gemel train, eval, infer, summary and bench of models that take speech.
#include "datasets/formats/npy.h"
#include "tests/support/datasets/speech_folder.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

class SpeechProgram : public CommandLine {
 protected:
  void SetUp() override { write_speech(folder()); }
  Words told(const Words& command, const Words& more = {}) const { return with_speech(folder(), command, more); }
  /// Its transcripts in train.tsv or dev.tsv.
  std::string lines_of_split(const std::string& split) const { return read_text(folder() / (split + ".tsv")); }
};

TEST_F(SpeechProgram, learns_and_evaluates_alike_in_both_front_ends) {
  for (const std::string frontend : {"eager", "graph"}) {
    const Outcome o = run(told({"train"}, {"--batch-size", "8", "--lr", "1e-2", "--epochs", "20", "--eval-every", "20", "--length-buckets", "on", "--frontend",
                                           frontend, "--log-dir", in_folder(frontend), "--save", in_folder(frontend + ".safetensors")}));
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_NE(o.err.find("96 utterances of at most "), std::string::npos) << o.err;
  }
  ASSERT_NO_FATAL_FAILURE(expect_first_losses_alike_in_both_front_ends(20 * 12));
  for (const std::string frontend : {"eager", "graph"}) {
    const Json last = last_epoch(frontend);
    EXPECT_LT(last["val_wer"], 0.1);
    EXPECT_LE(last["val_cer"], last["val_wer"]);
    const Outcome eval = run(told({"eval"}, {"--weights", in_folder(frontend + ".safetensors"), "--batch-size", "7", "--frontend", frontend}));
    ASSERT_EQ(eval.status, 0) << eval.err;
    EXPECT_EQ(number_after(eval.out, "samples "), 16) << eval.out;
    expect_evaluated_as(last, eval, {"loss", "wer", "cer"});
    const Outcome infer = run({"infer", "--model", "speech", "--config", in_folder("config.json"), "--weights", in_folder(frontend + ".safetensors"),
                               "--frontend", frontend, "--batch-size", "2", "--input",
                               in_folder("dev/0.wav") + "," + in_folder("dev/1.wav") + "," + in_folder("dev/2.wav"), "--output", in_folder("y.npy")});
    ASSERT_EQ(infer.status, 0) << infer.err;
    const Words written = lines_of(infer.out), said = lines_of(lines_of_split("dev"));
    ASSERT_EQ(written.size(), 3u);
    int right = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(written[i].starts_with(in_folder("dev/" + std::to_string(i) + ".wav\t"))) << written[i];
      right += written[i] == folder().string() + "/" + said[i];
    }
    EXPECT_GE(right, 2) << infer.out;
    const datasets::NpyFile log_probs(in_folder("y.npy"));
    EXPECT_EQ(log_probs.shape()[0], 3);
    EXPECT_EQ(log_probs.shape()[2], 29);
  }
}

TEST_F(SpeechProgram, resumes_to_the_same_bits) {
  const auto with = [&](const Words& more) {
    return joined(told({"train", "--batch-size", "10", "--epochs", "2", "--limit", "40", "--length-buckets", "on", "--dropout", "0.2"}), more);
  };
  ASSERT_EQ(run(with({"--save", in_folder("whole.safetensors")})).status, 0);
  const Words resumed = with({"--checkpoint-dir", in_folder("c"), "--checkpoint-every", "1", "--resume", "auto", "--save", in_folder("resumed.safetensors")});
  kill_after(3, start(resumed));
  const Outcome last = run(resumed);
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_TRUE(read_text(folder() / "whole.safetensors") == read_text(folder() / "resumed.safetensors")) << "the weights differ";
}

TEST_F(SpeechProgram, of_no_data_trains_measures_and_summarises) {
  const Words model{"--model", "speech", "--config", in_folder("config.json")};
  const auto with = [&](const Words& command, const Words& more) { return run(joined(joined(command, model), more)); };
  const Outcome train = with({"train"}, {"--steps", "2", "--limit", "6", "--batch-size", "3"});
  ASSERT_EQ(train.status, 0) << train.err;
  EXPECT_NE(train.err.find("6 utterances of at most 400 frames and 50 characters"), std::string::npos) << train.err;
  for (const char* work : {"train", "infer"}) {
    const Outcome bench = with({"bench", work}, {"--batch-size", "1,3", "--input", "40,60", "--runs", "2", "--warmup", "1", "--json", in_folder("b.json")});
    ASSERT_EQ(bench.status, 0) << bench.err;
    const Json cases = Json::parse(read_text(folder() / "b.json"))["benchmarks"];
    ASSERT_EQ(cases.size(), 8u);
    EXPECT_EQ(cases[2]["name"], std::string(work) + "/speech-config/3/40/eager");
    EXPECT_FALSE(cases[2].contains("tokens_per_second"));
  }
  const Outcome summary = with({"summary"}, {"--batch-size", "8", "--input", "100", "--json"});
  ASSERT_EQ(summary.status, 0) << summary.err;
  const Json told = Json::parse(summary.out);
  EXPECT_EQ(told["layers"][0]["output"], (std::vector<int>{8, 25, 29}));
  EXPECT_EQ(told["parameters"], 24 * (20 * 11 + 1) + 24 * (24 * 11 + 1) + 4 * 24 + 2 * 3 * 24 * (24 + 24 + 2) + 29 * 49);
  EXPECT_GT(told["flops"], 0);
}

TEST_F(SpeechProgram, that_is_wrong_is_refused_in_one_line) {
  const auto train = [this](const Words& more) { return told({"train"}, more); };
  expect_refused({"train", "--model", "speech", "--dataset", "speech"}, 2,
                 "--data: no data path was given for --dataset speech; accepted: the folder of its train.tsv and dev.tsv");
  expect_refused({"train", "--model", "speech", "--dataset", "ratings"}, 2, "--dataset: 'ratings' is not accepted; accepted: synthetic, speech");
  expect_refused({"train", "--model", "lenet", "--dataset", "speech", "--data", folder().string()}, 2, "--dataset: 'speech' is not accepted");
  const Words others[] = {{"--input", "400"}, {"--normalize", "standard"}, {"--augment", "none"},
                          {"--classes", "2"}, {"--vocab", "vocab.txt"},    {"--max-length", "5"}};
  for (const Words& other : others) expect_refused(train(other), 2, other[0] + ": it is given with --model speech, which takes speech; accepted: without it");
  expect_refused(train({"--recompute", "blocks"}), 2, "--recompute: blocks is given with --model speech, which has no repeated blocks; accepted: none");
  expect_refused({"train", "--model", "speech", "--config", "huge"}, 2,
                 "--config: 'huge' is neither known nor a file; accepted: tiny, mini, small, base, or a config.json");
  expect_refused({"bench", "train", "--model", "speech", "--input", "7"}, 2, "--input");
  expect_refused({"summary", "--model", "speech", "--classes", "3"}, 2, "--classes: it is given with --model speech, which takes speech; accepted: without it");
  expect_refused({"infer", "--model", "speech", "--weights", "w", "--text", "a"}, 2,
                 "--text: it is given with --model speech, which takes sounds; accepted: --input");
  expect_refused({"infer", "--model", "speech", "--weights", "w", "--input", "a.wav", "--classes", "3"}, 2,
                 "--classes: it is given with --model speech, which takes speech; accepted: without it");
  expect_refused({"infer", "--model", "speech", "--weights", "w", "--input", in_folder("none.wav")}, 1, "none.wav: No such file or directory");
  write_text(folder() / "dev.tsv", "dev/0.wav low\n");
  expect_refused(train({}), 1, "dev.tsv, line 1: it has 1 column; accepted: 2, with a tab between: WAV file and transcript");
}

/// The script that users make speech up by.
TEST_F(SpeechProgram, reads_what_make_tones_makes_up) {
  if (std::system("python3 -c 0 2> /dev/null") != 0) GTEST_SKIP() << "python3 is not installed";
  const std::string script = std::string(GEMEL_SOURCE_DIR) + "/datasets/make_tones";
  ASSERT_EQ(std::system((script + " " + in_folder("made") + " --train 6 --dev 2").c_str()), 0);
  const Outcome o =
      run({"train", "--model", "speech", "--config", "tiny", "--dataset", "speech", "--data", in_folder("made"), "--steps", "1", "--batch-size", "3"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("6 utterances of at most "), std::string::npos) << o.err;
}

}  // namespace
}  // namespace gemel::testing
