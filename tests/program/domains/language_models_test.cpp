// Language models from running text to its continuation: gemel train, eval, generate, infer, summary and bench of gpt2.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "datasets/formats/npy.h"
#include "tests/support/datasets/running_text_folder.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

class Generate : public CommandLine {
 protected:
  void SetUp() override { write_running_text(folder()); }
  Words training(const Words& more) const {
    return joined(with_running_text(folder(), "train", {"--batch-size", "8", "--optimizer", "adamw", "--lr", "3e-3", "--dropout", "0"}), more);
  }
  Words generating(const std::string& prompt, const Words& more = {}) const {
    return joined({"generate", "--model", "gpt2", "--config", in_folder("config.json"), "--weights", in_folder("w.safetensors"), "--vocab", folder().string(),
                   "--prompt", prompt},
                  more);
  }
  void train_briefly() { ASSERT_EQ(run(training({"--steps", "1", "--save", in_folder("w.safetensors")})).status, 0) << read_text(folder() / "err"); }
};

TEST_F(Generate, goes_on_with_what_was_learnt_in_both_front_ends) {
  for (const std::string frontend : {"eager", "graph"}) {
    const Outcome o = run(training({"--epochs", "12", "--frontend", frontend, "--log-dir", in_folder(frontend), "--save", in_folder("w.safetensors")}));
    ASSERT_EQ(o.status, 0) << o.err;
  }
  ASSERT_NO_FATAL_FAILURE(expect_first_losses_alike_in_both_front_ends(12 * 8));
  EXPECT_GT(losses("eager")[0], 4) << "of a vocabulary of 1500 at first";
  const Json last = last_epoch("graph");
  EXPECT_LT(last["val_perplexity"], 1.2);
  EXPECT_NEAR(last["val_perplexity"].get<double>(), std::exp(last["val_loss"].get<double>()), 1e-6);

  const Outcome evaluated = run(with_running_text(folder(), "eval", {"--weights", in_folder("w.safetensors"), "--batch-size", "3"}));
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  expect_evaluated_as(last, evaluated, {"loss", "perplexity"});

  for (const std::string frontend : {"eager", "graph"}) {
    const Outcome o = run(generating("The sea is", {"--frontend", frontend, "--log-dir", in_folder("generated-" + frontend)}));
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(o.out, std::string(kSentence) + "\n");
    EXPECT_NE(o.err.find(" tokens/s; ended by <|endoftext|>\n"), std::string::npos) << o.err;
    const Json summary = Json::parse(read_text(folder() / ("generated-" + frontend) / "summary.json"));
    EXPECT_GT(summary["tokens_per_s"], 0);
    EXPECT_GT(summary["tokens"], 10);
  }
  EXPECT_EQ(run(generating("")).out, std::string(kSentence) + "\n") << "an empty prompt begins a text";
  const Outcome two = run(generating("The sea", {"--max-tokens", "2"}));
  EXPECT_TRUE(kSentence.starts_with(two.out.substr(0, two.out.size() - 1))) << two.out;
  EXPECT_NE(two.err.find("then 2 tokens; ended by --max-tokens\n"), std::string::npos) << two.err;
}

TEST_F(Generate, draws_by_seed_and_ends_with_the_positions) {
  train_briefly();
  const auto drawn = [this](const std::string& seed, const Words& more) {
    const Outcome o = run(generating("The sea", joined({"--seed", seed, "--max-tokens", "12"}, more)));
    EXPECT_EQ(o.status, 0) << o.err;
    return o.out;
  };
  const Words hot{"--temperature", "2"};
  EXPECT_EQ(drawn("5", hot), drawn("5", hot));
  EXPECT_NE(drawn("5", hot), drawn("6", hot));
  EXPECT_EQ(drawn("5", {"--temperature", "2", "--top-k", "1"}), drawn("6", {})) << "the likeliest";
  const Outcome full = run(generating("The sea", {"--max-tokens", "1000"}));
  ASSERT_EQ(full.status, 0) << full.err;
  EXPECT_NE(full.err.find("; ended by the last of the model's positions\n"), std::string::npos) << full.err;
}

TEST_F(Generate, models_are_inferred_told_and_measured) {
  train_briefly();
  const std::vector<std::int64_t> ids{5, 7, 9, 11, 6, 8};
  datasets::write_npy(folder() / "ids.npy", i64({2, 3}), std::as_bytes(std::span(ids)));
  const Words model{"--model", "gpt2", "--config", in_folder("config.json")};
  const Outcome infer = run(joined(joined({"infer"}, model), {"--weights", in_folder("w.safetensors"), "--input", in_folder("ids.npy"), "--output",
                                                              in_folder("y.npy"), "--batch-size", "1"}));
  ASSERT_EQ(infer.status, 0) << infer.err;
  EXPECT_EQ(datasets::NpyFile(folder() / "y.npy").shape(), (Shape{2, 3, 1500}));
  const Outcome summary = run(joined(joined({"summary"}, model), {"--input", "12", "--batch-size", "2", "--json"}));
  ASSERT_EQ(summary.status, 0) << summary.err;
  EXPECT_EQ(Json::parse(summary.out)["layers"][0]["output"], (std::vector<int>{2, 12, 1500}));
  const Outcome bench =
      run(joined(joined({"bench", "train"}, model), {"--input", "12", "--batch-size", "2", "--runs", "2", "--warmup", "1", "--json", in_folder("b.json")}));
  ASSERT_EQ(bench.status, 0) << bench.err;
  const Json cases = Json::parse(read_text(folder() / "b.json"))["benchmarks"];
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0]["name"], "train/gpt2-config/2/12/eager");
  EXPECT_GT(cases[0]["tokens_per_second"], 0);
}

TEST_F(Generate, refuses_in_one_line) {
  train_briefly();
  expect_refused({"generate", "--weights", "w", "--vocab", "v"}, 2, "--prompt is missing; accepted: text to go on from");
  expect_refused(generating("The sea", {"--temperature", "-1"}), 2, "--temperature: -1 is out of range; accepted: 0 to 1000000");
  expect_refused(generating("The sea", {"--top-k", "5"}), 2,
                 "--top-k: it is given with --temperature 0, which takes the likeliest token; accepted: with one above 0");
  expect_refused(generating("The sea", {"--max-tokens", "0"}), 2, "--max-tokens: 0 is out of range");
  expect_refused(generating("a\xff"), 2, "--prompt: text: byte 1 (0xff) is not UTF-8; accepted: UTF-8");
  std::string longer;
  for (int i = 0; i < 65; ++i) longer += " the";
  expect_refused(generating(longer), 2, "--prompt: it has 65 tokens; accepted: at most 64, as many as there are positions");
  const auto with = [&](const std::string& option, const std::string& value) {
    Words words = generating("The sea");
    *(std::ranges::find(words, option) + 1) = value;
    return words;
  };
  expect_refused(with("--model", "bert"), 2, "--model: 'bert' is not accepted; accepted: gpt2");
  expect_refused(with("--vocab", in_folder("none")), 1, "read: cannot open " + in_folder("none") + ": No such file or directory");
  expect_refused(with("--weights", in_folder("none")), 1, "none");
  expect_refused(with("--config", "huge"), 2,
                 "gpt2: the configuration 'huge' is neither known nor a file; accepted: tiny, mini, small, base, or a config.json");
  std::filesystem::create_directory(folder() / "other");
  write_text(folder() / "other" / "vocab.json", R"({"a": 0, "b": 1})");
  write_text(folder() / "other" / "merges.txt", "");
  expect_refused(
      with("--vocab", in_folder("other")), 1,
      "generate: " + in_folder("other") + " has 2 tokens, " + in_folder("w.safetensors") + " is of 1500; accepted: the vocabulary that it was trained with");
  write_text(folder() / "config.json", R"({"n_embd": 48, "n_layer": 3, "n_head": 2, "n_positions": 64})");
  expect_refused(generating("The sea"), 1, "missing: transformer.h.2.ln_1.weight");
}

TEST_F(Generate, training_refuses_in_one_line) {
  expect_refused({"train", "--model", "gpt2", "--dataset", "sst2"}, 2, "--dataset: 'sst2' is not accepted; accepted: synthetic, text");
  expect_refused({"train", "--model", "gpt2", "--dataset", "text"}, 2,
                 "--data: no data path was given for --dataset text; accepted: the folder of its train.txt");
  expect_refused({"train", "--model", "gpt2", "--dataset", "text", "--data", folder().string()}, 2,
                 "--vocab: none is given for --dataset text; accepted: GPT-2's folder of vocab.json and merges.txt, or a tokenizer.json");
  expect_refused(training({"--classes", "3"}), 2, "--classes: it is given with --model gpt2, which takes running text; accepted: without it");
  expect_refused(training({"--length-buckets", "on"}), 2, "--length-buckets: it is given with --model gpt2, which takes running text; accepted: without it");
  Words longer = training({});
  *(std::ranges::find(longer, "--max-length") + 1) = "65";
  expect_refused(longer, 2, "--max-length: 65 tokens for a model of 64 positions; accepted: at most as many");
  write_text(folder() / "train.txt", "");
  expect_refused(training({}), 1, "train.txt has 0 tokens; accepted: two or more");
  std::filesystem::remove(folder() / "train.txt");
  expect_refused(training({}), 1, "train.txt: No such file or directory");
}

}  // namespace
}  // namespace gemel::testing
