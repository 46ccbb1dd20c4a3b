// Texts from raw files to metrics: gemel train, eval, infer, summary and bench of models that take them.
#include <cstring>

#include "datasets/formats/npy.h"
#include "engine/files/safetensors.h"
#include "tests/support/datasets/texts_folder.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

class TextProgram : public CommandLine {
 protected:
  void SetUp() override { write_texts(folder()); }
  Words told(const Words& command, const Words& more = {}) const { return with_texts(folder(), model_, command, more); }
  Words training(const Words& more) const { return joined(told({"train", "--batch-size", "16", "--optimizer", "adamw", "--lr", "3e-3"}), more); }
  void expect_learnt_in_both_front_ends() {
    for (const std::string frontend : {"eager", "graph"}) {
      const Outcome o = run(training({"--epochs", "5", "--lr-schedule", "linear", "--warmup", "0.1", "--frontend", frontend, "--log-dir", in_folder(frontend),
                                      "--dropout", "0", "--save", in_folder(frontend + ".safetensors")}));
      ASSERT_EQ(o.status, 0) << o.err;
    }
    ASSERT_NO_FATAL_FAILURE(expect_first_losses_alike_in_both_front_ends(30));
    std::vector<double> rates;
    for (const Json& e : events("graph"))
      if (e["event"] == "step") rates.push_back(e["lr"]);
    EXPECT_EQ(rates[0], 0) << "a tenth of 30 steps warms up";
    EXPECT_NEAR(rates[3], 3e-3, 1e-12);
    EXPECT_NEAR(rates[29], 3e-3 / 27, 1e-12);
    const Json last = last_epoch("graph");
    EXPECT_GT(last["val_accuracy"], 0.95);
    const Outcome eval = run(told({"eval"}, {"--weights", in_folder("graph.safetensors"), "--batch-size", "7"}));
    ASSERT_EQ(eval.status, 0) << eval.err;
    EXPECT_NE(eval.out.find("samples 31\n"), std::string::npos) << eval.out;
    expect_evaluated_as(last, eval, {"loss", "accuracy", "precision", "recall", "f1"});
  }
  void expect_words_and_tokens_answered_alike() {
    ASSERT_EQ(run(training({"--epochs", "5", "--dropout", "0", "--save", in_folder("w.safetensors")})).status, 0);
    const Words model{"infer", "--model", model_, "--config", in_folder("config.json"), "--weights", in_folder("w.safetensors")};
    const auto infer = [&](const Words& more) { return run(joined(model, more)); };
    const Outcome words = infer({"--vocab", in_folder("vocab.txt"), "--text", "The film is good", "--text", "a BAD story of the dog and their people",
                                 "--output", in_folder("words.npy"), "--batch-size", "1"});
    ASSERT_EQ(words.status, 0) << words.err;
    const auto lines = lines_of(words.out);
    ASSERT_EQ(lines.size(), 2u) << words.out;
    EXPECT_TRUE(lines[0].starts_with("1 0.") && lines[0].ends_with(" The film is good")) << lines[0];
    EXPECT_TRUE(lines[1].starts_with("0 0.") && lines[1].ends_with(" a BAD story of the dog and their people")) << lines[1];
    // [CLS] the film is good [SEP], and the other, padded to one length.
    const std::vector<std::int64_t> ids{2, 7, 8, 9, 5, 3, 0, 0, 0, 0, 0, 2, 10, 6, 11, 12, 7, 17, 15, 16, 14, 3};
    datasets::write_npy(folder() / "ids.npy", i64({2, 11}), std::as_bytes(std::span(ids)));
    const Outcome tokens = infer({"--input", in_folder("ids.npy"), "--output", in_folder("tokens.npy"), "--frontend", "graph"});
    ASSERT_EQ(tokens.status, 0) << tokens.err;
    const auto logits = [this](const char* name) {
      const datasets::NpyFile file(folder() / name);
      EXPECT_EQ(file.shape(), (Shape{2, 2}));
      std::vector<float> out(4);
      std::memcpy(out.data(), file.data().data(), 16);
      return out;
    };
    const auto a = logits("words.npy"), b = logits("tokens.npy");
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(a[i], b[i], 1e-5);
  }

  std::string model_ = "bert";
};

TEST_F(TextProgram, is_learnt_evaluated_and_told_in_both_front_ends) { expect_learnt_in_both_front_ends(); }
TEST_F(TextProgram, is_answered_from_words_and_from_tokens_alike) { expect_words_and_tokens_answered_alike(); }
TEST_F(TextProgram, of_an_lstm_is_learnt_evaluated_and_answered) {
  model_ = "lstm_classifier";
  expect_learnt_in_both_front_ends();
  expect_words_and_tokens_answered_alike();
}

TEST_F(TextProgram, resumes_to_the_same_bits_with_buckets_and_warm_up) {
  const Words how{"--epochs", "4", "--length-buckets", "on", "--lr-schedule", "linear", "--warmup", "5"};
  const auto with = [&](const Words& more) { return joined(training(how), more); };
  ASSERT_EQ(run(with({"--save", in_folder("whole.safetensors")})).status, 0);
  const Words resumed = with({"--checkpoint-dir", in_folder("c"), "--checkpoint-every", "1", "--resume", "auto", "--save", in_folder("resumed.safetensors")});
  for (const int step : {2, 9, 15}) kill_after(step, start(resumed));
  const Outcome last = run(resumed);
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_GE(number_after(last.err, "resume: going on after step "), 15) << last.err;
  EXPECT_TRUE(read_text(folder() / "whole.safetensors") == read_text(folder() / "resumed.safetensors")) << "the weights differ";
}

TEST_F(TextProgram, moves_only_the_rows_of_embeddings_that_it_meets_where_that_is_asked_for) {
  const auto row_of_mask = [&](const std::string& steps, const Words& more) {  // a token that no text has
    EXPECT_EQ(run(joined(training({"--steps", steps, "--weight-decay", "0.5", "--save", in_folder("w.safetensors")}), more)).status, 0);
    const SafetensorsFile file(folder() / "w.safetensors");
    const auto table = file.find("bert.embeddings.word_embeddings.weight")->data;
    const std::size_t row = table.size() / 19;
    return std::vector<std::byte>(table.begin() + std::ptrdiff_t(4 * row), table.begin() + std::ptrdiff_t(5 * row));
  };
  const auto after_a_step = row_of_mask("1", {"--sparse-embeddings"});
  EXPECT_TRUE(row_of_mask("5", {"--sparse-embeddings"}) == after_a_step);
  EXPECT_FALSE(row_of_mask("5", {}) == row_of_mask("1", {})) << "it decays";
}

TEST_F(TextProgram, of_no_data_is_made_up_to_train_measure_and_summarise) {
  const Words config{"--model", model_, "--config", in_folder("config.json")};
  const auto with = [&](const Words& command, const Words& more) { return run(joined(joined(command, config), more)); };
  const Outcome train = with({"train"}, {"--steps", "3", "--max-length", "12", "--limit", "64", "--classes", "4", "--log-dir", in_folder("log")});
  ASSERT_EQ(train.status, 0) << train.err;
  EXPECT_NE(train.err.find("64 samples, 4 classes"), std::string::npos) << train.err;
  const Outcome bench = with({"bench", "train"}, {"--batch-size", "4", "--input", "12,20", "--runs", "2", "--warmup", "1", "--json", in_folder("b.json")});
  ASSERT_EQ(bench.status, 0) << bench.err;
  const Json cases = Json::parse(read_text(folder() / "b.json"))["benchmarks"];
  ASSERT_EQ(cases.size(), 4u);
  EXPECT_EQ(cases[2]["name"], "train/bert-config/4/20/eager");
  EXPECT_NEAR(cases[2]["tokens_per_second"].get<double>(), 20 * cases[2]["items_per_second"].get<double>(), 1e-6 * cases[2]["tokens_per_second"].get<double>());
  const Outcome summary = with({"summary"}, {"--input", "12", "--batch-size", "8", "--pipeline-stages", "2", "--json"});
  ASSERT_EQ(summary.status, 0) << summary.err;
  const Json told = Json::parse(summary.out);
  EXPECT_EQ(told["layers"][0]["output"], (std::vector<int>{8, 2}));
  EXPECT_EQ(told["pipeline"].size(), 2u);
}

TEST_F(TextProgram, a_text_is_by_default_no_longer_than_the_model_has_positions) {
  write_text(folder() / "short.json", R"({"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 16})");
  const Outcome o = run({"summary", "--model", "gpt2", "--config", in_folder("short.json"), "--batch-size", "2", "--json"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(Json::parse(o.out)["layers"][0]["output"][1], 16);
}

TEST_F(TextProgram, that_is_wrong_is_refused_in_one_line) {
  const auto train = [this](const Words& more) { return told({"train"}, more); };
  expect_refused({"train", "--model", "bert", "--dataset", "sst2", "--vocab", in_folder("vocab.txt")}, 2,
                 "--data: no data path was given for --dataset sst2; accepted: the folder of its train.tsv and dev.tsv");
  expect_refused({"train", "--model", "bert", "--dataset", "sst2", "--data", folder().string()}, 2,
                 "--vocab: none is given for --dataset sst2; accepted: BERT's vocab.txt, a tokenizer.json, or a folder with one of them");
  expect_refused({"train", "--model", "bert", "--vocab", in_folder("vocab.txt")}, 2,
                 "--vocab: '" + in_folder("vocab.txt") +
                     "' is given with --dataset synthetic, which has no texts to tokenize; accepted: --dataset sst2 or cola or mrpc with it");
  expect_refused({"train", "--model", "bert", "--dataset", "cifar10"}, 2, "--dataset: 'cifar10' is not accepted; accepted: synthetic, sst2, cola, mrpc");
  expect_refused({"train", "--model", "lenet", "--vocab", "vocab.txt"}, 2,
                 "--vocab: it is given with --model lenet, which takes pictures; accepted: without it");
  expect_refused(train({"--augment", "standard"}), 2, "--augment: it is given with --model bert, which takes texts; accepted: without it");
  const std::string without_momentum = "; accepted: sgd without momentum, adam or adamw";
  expect_refused(train({"--sparse-embeddings", "--optimizer", "momentum"}), 2,
                 "--sparse-embeddings: --optimizer momentum with momentum 0.9 is given" + without_momentum);
  expect_refused(train({"--sparse-embeddings", "--optimizer", "rmsprop"}), 2,
                 "--sparse-embeddings: --optimizer rmsprop with momentum 0 is given" + without_momentum);
  expect_refused(train({"--sparse-embeddings", "--parallel", "pipeline"}), 2,
                 "--sparse-embeddings: it is given with --parallel pipeline; accepted: no pipeline");
  expect_refused({"train", "--model", "lenet", "--sparse-embeddings"}, 2,
                 "--sparse-embeddings: lenet has no embeddings that are in nothing but lookups; accepted: a model that has");
  expect_refused(train({"--warmup", "5"}), 2, "--warmup: it is given with --lr-schedule constant; accepted: with linear");
  expect_refused(train({"--lr-schedule", "linear", "--warmup", "many"}), 2,
                 "--warmup: 'many' is given; accepted: a number of steps, or a share of the run with a point, 0.0 to 1.0");
  expect_refused(train({"--lr-schedule", "linear", "--warmup", "100", "--steps", "4"}), 2,
                 "gemel: --warmup: 100 steps of a run of 4; accepted: at most all of them");
  Words longer = train({});
  longer.back() = "49";
  expect_refused(longer, 2, "--max-length: 49 tokens for a model of 48 positions; accepted: at most as many");
  const auto text = [this](const char* file, const std::string& content) { write_text(folder() / file, content); };
  text("config.json", R"({"hidden_size": 32, "num_attention_heads": 5})");
  expect_refused(train({}), 1, "config.json: bert: 5 heads share a width of 32; accepted: heads that divide it");
  write_texts(folder());
  text("dev.tsv", "sentence\tlabel\ngood film\t1\nbad film 0\n");
  expect_refused(train({}), 1, "dev.tsv, line 3: it has 1 column; accepted: 2, with tabs between");
  text("dev.tsv", "sentence\tlabel\ngood film\t2\n");
  expect_refused(train({}), 1, "dev.tsv, line 2: its label is '2'; accepted: 0 or 1");
  text("dev.tsv", std::string("sentence\tlabel\ngood \0 film\t1\n", 30));
  expect_refused(train({}), 1, "dev.tsv, line 2: it has a NUL byte; accepted: text");
  text("dev.tsv", "");
  expect_refused(train({}), 1, "dev.tsv");
  write_texts(folder());
  text("vocab.txt", "[PAD]\n[CLS]\n[SEP]\nfilm\n");
  expect_refused(train({}), 1, "[UNK]");
  std::filesystem::remove(folder() / "vocab.txt");
  expect_refused(train({}), 1, "vocab.txt");
}

}  // namespace
}  // namespace gemel::testing
