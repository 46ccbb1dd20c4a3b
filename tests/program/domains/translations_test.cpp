// Translation from raw files to metrics: gemel train, eval, infer, summary and bench of models that translate.
#include <cstring>

#include "datasets/formats/npy.h"
#include "tests/support/datasets/translations_folder.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

class TranslationProgram : public CommandLine {
 protected:
  void SetUp() override { write_translations(folder()); }
  Words told(const Words& command, const Words& more = {}) const { return with_translations(folder(), command, more); }
  Words training(const Words& more) const {
    return joined(told({"train", "--batch-size", "32", "--lr", "5e-3", "--clip-norm", "1", "--lr-schedule", "linear", "--warmup", "0.1"}), more);
  }
};

TEST_F(TranslationProgram, learns_to_copy_in_both_front_ends) {
  for (const std::string frontend : {"eager", "graph"}) {
    const Outcome o = run(training(
        {"--epochs", "12", "--eval-every", "12", "--frontend", frontend, "--log-dir", in_folder(frontend), "--save", in_folder(frontend + ".safetensors")}));
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_NE(o.err.find("1024 pairs of texts, a vocabulary of 13"), std::string::npos) << o.err;
  }
  ASSERT_NO_FATAL_FAILURE(expect_first_losses_alike_in_both_front_ends(12 * 32));
  for (const std::string frontend : {"eager", "graph"}) {
    const Json last = last_epoch(frontend);
    EXPECT_GE(last["val_token_accuracy"], 0.99);
    EXPECT_GT(last["val_bleu"], 0.95);
    EXPECT_FALSE(last.contains("train_bleu"));
    const Outcome eval =
        run(told({"eval"}, {"--weights", in_folder(frontend + ".safetensors"), "--batch-size", "7", "--frontend", frontend, "--length-buckets", "on"}));
    ASSERT_EQ(eval.status, 0) << eval.err;
    EXPECT_EQ(number_after(eval.out, "samples "), 64) << eval.out;
    expect_evaluated_as(last, eval, {"loss", "bleu", "token_accuracy"});
    const Words model{"infer",
                      "--model",
                      "transformer",
                      "--config",
                      in_folder("config.json"),
                      "--weights",
                      in_folder(frontend + ".safetensors"),
                      "--vocab",
                      in_folder("vocab.txt"),
                      "--frontend",
                      frontend,
                      "--max-length",
                      "8",
                      "--output",
                      in_folder("tokens.npy")};
    const auto infer = [&](const Words& more) { return run(joined(model, more)); };
    const Outcome words = infer({"--text", "C a f", "--text", "h g e b a", "--batch-size", "1"});
    ASSERT_EQ(words.status, 0) << words.err;
    EXPECT_EQ(words.out, "c a f\nh g e b a\n");
    const std::vector<std::int64_t> ids{2, 7, 5, 10, 3, 0};  // [CLS] c a f [SEP] [PAD]
    datasets::write_npy(folder() / "ids.npy", i64({1, 6}), std::as_bytes(std::span(ids)));
    const Outcome tokens = infer({"--input", in_folder("ids.npy")});
    ASSERT_EQ(tokens.status, 0) << tokens.err;
    const datasets::NpyFile file(folder() / "tokens.npy");
    ASSERT_EQ(file.type(), datasets::NpyType::int64);
    ASSERT_EQ(file.shape(), (Shape{1, 8}));
    std::vector<std::int64_t> written(8);
    std::memcpy(written.data(), file.data().data(), file.data().size());
    EXPECT_EQ(written, (std::vector<std::int64_t>{7, 5, 10, 3, 0, 0, 0, 0}));
  }
}

TEST_F(TranslationProgram, of_no_data_is_made_up_to_train_measure_and_summarise) {
  const Words config{"--model", "transformer", "--config", in_folder("config.json")};
  const auto with = [&](const Words& command, const Words& more) { return run(joined(joined(command, config), more)); };
  const Outcome train = with({"train"}, {"--steps", "3", "--max-length", "12", "--limit", "64"});
  ASSERT_EQ(train.status, 0) << train.err;
  EXPECT_NE(train.err.find("64 pairs of texts, a vocabulary of 13"), std::string::npos) << train.err;
  for (const char* work : {"train", "infer"}) {
    const Outcome bench = with({"bench", work}, {"--batch-size", "4", "--input", "12,20", "--runs", "2", "--warmup", "1", "--json", in_folder("b.json")});
    ASSERT_EQ(bench.status, 0) << bench.err;
    const Json cases = Json::parse(read_text(folder() / "b.json"))["benchmarks"];
    ASSERT_EQ(cases.size(), 4u);
    EXPECT_EQ(cases[2]["name"], std::string(work) + "/transformer-config/4/20/eager");
    EXPECT_NEAR(cases[2]["tokens_per_second"].get<double>(), 20 * cases[2]["items_per_second"].get<double>(),
                1e-6 * cases[2]["tokens_per_second"].get<double>());
  }
  const Outcome summary = with({"summary"}, {"--input", "12", "--batch-size", "8", "--pipeline-stages", "2", "--json"});
  ASSERT_EQ(summary.status, 0) << summary.err;
  const Json told = Json::parse(summary.out);
  EXPECT_EQ(told["layers"][0]["output"], (std::vector<int>{8, 12, 13}));
  EXPECT_EQ(told["pipeline"].size(), 2u);
}

TEST_F(TranslationProgram, that_is_wrong_is_refused_in_one_line) {
  const auto train = [this](const Words& more) { return told({"train"}, more); };
  expect_refused({"train", "--model", "transformer", "--dataset", "translation", "--vocab", in_folder("vocab.txt")}, 2,
                 "--data: no data path was given for --dataset translation; accepted: the folder of its train.tsv and dev.tsv");
  expect_refused({"train", "--model", "transformer", "--dataset", "translation", "--data", folder().string()}, 2,
                 "--vocab: none is given for --dataset translation; accepted: BERT's vocab.txt");
  expect_refused({"train", "--model", "transformer", "--dataset", "sst2"}, 2, "--dataset: 'sst2' is not accepted; accepted: synthetic, translation");
  expect_refused(train({"--classes", "3"}), 2, "--classes: it is given with --model transformer, which translates texts; accepted: without it");
  expect_refused(train({"--augment", "standard"}), 2, "--augment: it is given with --model transformer, which translates texts; accepted: without it");
  expect_refused(train({"--label-smoothing", "1.5"}), 2, "--label-smoothing");
  expect_refused({"train", "--model", "gpt2", "--label-smoothing", "0.1"}, 2,
                 "--label-smoothing: it is given with --model gpt2; accepted: with models of classes, and those that translate");
  const auto text = [this](const char* file, std::string_view content) { write_text(folder() / file, content); };
  text("dev.tsv", "a b\tb a\na b\n");
  expect_refused(train({}), 1, "dev.tsv, line 2: it has 1 column; accepted: 2, with a tab between: source and target");
  text("dev.tsv", "");
  expect_refused(train({}), 1, "dev.tsv has no lines");
  write_translations(folder(), 32, 8);
  ASSERT_EQ(run(training({"--steps", "1", "--save", in_folder("w.safetensors")})).status, 0);
  const Words infer{"infer", "--model", "transformer", "--config", in_folder("config.json"), "--weights", in_folder("w.safetensors"), "--text", "a b"};
  expect_refused(infer, 2, "--vocab: none is given with --model transformer; accepted: the vocabulary that it was trained with");
  const Words with_vocabulary = joined(infer, {"--vocab", in_folder("vocab.txt")});
  text("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n");
  expect_refused(with_vocabulary, 1, "vocab.txt has 5 tokens, " + in_folder("w.safetensors") + " is of 13; accepted: the vocabulary that it was trained with");
  expect_refused(joined(with_vocabulary, {"--classes", "2"}), 2,
                 "--classes: it is given with --model transformer, which translates texts; accepted: without it");
}

/// The script that users make the task up by.
TEST_F(TranslationProgram, reads_what_make_copying_makes_up) {
  if (std::system("python3 -c 0 2> /dev/null") != 0) GTEST_SKIP() << "python3 is not installed";
  const std::string script = std::string(GEMEL_SOURCE_DIR) + "/datasets/make_copying";
  ASSERT_EQ(std::system((script + " " + in_folder("made") + " --samples 50 --dev 10 --words 30 --reversed").c_str()), 0);
  const Outcome o = run({"train", "--model", "transformer", "--config", in_folder("config.json"), "--dataset", "translation", "--data", in_folder("made"),
                         "--vocab", in_folder("made/vocab.txt"), "--max-length", "16", "--steps", "1", "--eval-every", "0"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("50 pairs of texts, a vocabulary of 35"), std::string::npos) << o.err;
  EXPECT_NE(std::system((script + " " + in_folder("made") + " --words 1 2> /dev/null").c_str()), 0) << "there are not as many different texts";
}

}  // namespace
}  // namespace gemel::testing
