// Data that change while the gemel program reads them, and numbers that are none: it says so and ends, with a record that is whole.
#include <system_error>

#include "datasets/speech/characters.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/models/ratings/ncf.h"
#include "frontends/models/speech/deep_speech.h"
#include "frontends/models/texts/text_models.h"
#include "tests/support/datasets/pictures_folder.h"
#include "tests/support/datasets/ratings_folder.h"
#include "tests/support/datasets/running_text_folder.h"
#include "tests/support/datasets/speech_folder.h"
#include "tests/support/datasets/texts_folder.h"
#include "tests/support/datasets/translations_folder.h"
#include "tests/support/models/fresh_weights.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

class DataFiles : public CommandLine {
 protected:
  /// A run that only what happens to its data ends. It happens after the first epoch.
  Outcome run_until(const std::function<void()>& happens, const Words& arguments) {
    fs::remove_all(folder() / "log");
    const pid_t child = start(joined(arguments, {"--epochs", "1000000", "--log-dir", in_folder("log")}));
    while (read_text(folder() / "log" / "run.jsonl").find("\"epoch\":2") == std::string::npos && ::waitpid(child, nullptr, WNOHANG) == 0)
      std::this_thread::yield();
    happens();
    return finish(child);
  }
  void expect_told(const Outcome& o, const std::string& file, const std::string& how) {
    EXPECT_EQ(o.status, 1) << o.err;
    EXPECT_EQ(lines_of(o.err).back(),
              "gemel: read: " + in_folder(file) + " has changed since it was opened: " + how + "; accepted: data that stay as they are while they are in use");
    EXPECT_EQ(events("log").back()["event"], "end");
    EXPECT_EQ(events("log").back()["status"], "failed");
  }
  Words on_pictures() const { return {"train", "--model", "lenet", "--batch-size", "8", "--dataset", "npy", "--data", in_folder("data")}; }

  std::string weights() const { return in_folder("nan.safetensors"); }
  void expect_loss_told(const Words& eval) {
    expect_refused(joined(eval, {"--weights", weights()}), 1, "gemel: eval: the loss is ");
    EXPECT_TRUE(
        lines_of(read_text(folder() / "err")).back().ends_with(" with the weights of " + weights() + "; accepted: weights and samples of finite numbers"));
    EXPECT_EQ(read_text(folder() / "out"), "") << "no loss is printed";
  }
  void expect_output_told(const Words& infer) {
    expect_refused(joined(infer, {"--weights", weights(), "--output", in_folder("y.npy")}), 1,
                   "gemel: infer: the output of sample 0 (from 0) is not finite; accepted: ");
    EXPECT_EQ(read_text(folder() / "out"), "") << "nothing is said of it";
    EXPECT_FALSE(fs::exists(folder() / "y.npy"));
  }
  std::string config() const { return in_folder("config.json"); }
};

TEST_F(DataFiles, one_that_shrinks_or_is_replaced_under_a_run_is_named_and_the_record_has_its_end) {
  write_pictures(folder() / "data", 16, std::vector<std::int64_t>(16, 1));
  const auto size = fs::file_size(folder() / "data/images.npy");
  expect_told(run_until([&] { fs::resize_file(folder() / "data/images.npy", 1000); }, on_pictures()), "data/images.npy",
              "it had " + std::to_string(size) + " bytes, and has 1000");
  write_pictures(folder() / "data", 16, std::vector<std::int64_t>(16, 1));
  expect_told(run_until([&] { write_pictures(folder() / "data", 16, std::vector<std::int64_t>(16, 2)); }, on_pictures()), "data/images.npy",
              "another file is in its place");
}

TEST_F(DataFiles, one_that_shrinks_under_the_graph_front_end_is_named) {
  write_pictures(folder() / "data", 16, std::vector<std::int64_t>(16, 1));
  const auto size = fs::file_size(folder() / "data/images.npy");
  const Outcome o = run_until([&] { fs::resize_file(folder() / "data/images.npy", 1000); }, joined(on_pictures(), {"--frontend", "graph"}));
  expect_told(o, "data/images.npy", "it had " + std::to_string(size) + " bytes, and has 1000");
}

TEST_F(DataFiles, one_that_shrinks_under_inference_is_named_and_no_output_is_left) {
  constexpr std::uint32_t kMany = 100'000;  // of which the first few are done when it shrinks
  write_hollow_pictures(folder() / "x.npy", kMany);
  const auto size = fs::file_size(folder() / "x.npy");
  write_fresh_weights(*models::make("lenet", {.classes = 10}), folder() / "w.safetensors");
  fs::create_directory(folder() / "written");
  const auto has_outputs = [this] {  // the file that becomes y.npy has more than its header
    constexpr std::uintmax_t kHeader = 128;
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator(folder() / "written"))
      if (const auto bytes = entry.file_size(gone); !gone && bytes > kHeader) return true;
    return false;
  };
  const pid_t child = start({"infer", "--model", "lenet", "--weights", in_folder("w.safetensors"), "--input", in_folder("x.npy"), "--output",
                             in_folder("written/y.npy"), "--batch-size", "1", "--log-dir", in_folder("log")});
  while (!has_outputs() && ::waitpid(child, nullptr, WNOHANG) == 0) std::this_thread::yield();
  fs::resize_file(folder() / "x.npy", 1000);
  expect_told(finish(child), "x.npy", "it had " + std::to_string(size) + " bytes, and has 1000");
  EXPECT_TRUE(fs::is_empty(folder() / "written"));
}

TEST_F(DataFiles, weights_that_give_no_number_are_told_by_eval_and_infer) {
  write_fresh_weights(*models::make("lenet", {.classes = 10}), weights(), {"fc3.bias"});
  write_pictures(folder() / "data", 4, {0, 1, 2, 3});
  expect_loss_told({"eval", "--model", "lenet", "--limit", "8", "--log-dir", in_folder("log")});
  EXPECT_EQ(events("log").back()["status"], "failed");
  expect_output_told({"infer", "--model", "lenet", "--input", in_folder("data/images.npy")});
}

TEST_F(DataFiles, weights_that_give_no_number_for_texts_are_told_by_eval_and_infer) {
  write_texts(folder(), 8, 4);
  write_fresh_weights(*models::make_text("bert", {.config = config()}), weights(), {"classifier.bias"});
  expect_loss_told(with_texts(folder(), "bert", {"eval"}));
  expect_output_told({"infer", "--model", "bert", "--config", config(), "--vocab", in_folder("vocab.txt"), "--text", "the film is good"});
}

TEST_F(DataFiles, weights_that_give_no_number_for_speech_are_told_by_eval_and_infer) {
  write_speech(folder(), 2, 2);
  write_fresh_weights(*models::speech(models::speech_config(config()), datasets::kCharacterClasses), weights(), {"fc.bias"});
  expect_loss_told(with_speech(folder(), {"eval"}));
  expect_output_told({"infer", "--model", "speech", "--config", config(), "--input", in_folder("dev/0.wav")});
}

TEST_F(DataFiles, weights_that_give_no_number_for_ratings_are_told_by_eval) {
  write_ratings(folder());
  write_fresh_weights(*models::ncf(models::ncf_config("tiny"), {.users = 120, .items = 128}), weights(), {"predict_layer.bias"});
  expect_loss_told(with_ratings(folder(), {"eval"}));
}

TEST_F(DataFiles, weights_that_give_no_number_for_translations_are_told_by_eval_and_infer) {
  write_translations(folder(), 8, 4);
  write_fresh_weights(*models::make_text("transformer", {.config = config()}), weights(), {"embedding.weight", "output.weight"});
  expect_loss_told(with_translations(folder(), {"eval"}));
  const Words infer{"infer",        "--model", "transformer", "--config", config(),    "--vocab", in_folder("vocab.txt"),
                    "--max-length", "8",       "--text",      "a b",      "--weights", weights()};
  const std::string refusal = "gemel: infer: the output of sample 0 (from 0) is not finite; accepted: ";  // of tokens, by the logits that they are chosen by
  expect_refused(infer, 1, refusal);
  write_fresh_weights(*models::make_text("transformer", {.config = config()}), weights(), {"embedding.weight", "output.weight"},
                      3e38f);  // finite, and not what is computed with them
  for (const char* frontend : {"graph", "eager"}) expect_refused(joined(infer, {"--frontend", frontend}), 1, refusal);
  EXPECT_EQ(read_text(folder() / "out"), "");
}

TEST_F(DataFiles, weights_that_give_no_number_for_running_text_are_told_by_eval_and_generate) {
  write_running_text(folder());
  write_fresh_weights(*models::make_text("gpt2", {.config = config()}), weights(), {"transformer.wte.weight", "lm_head.weight"});
  expect_loss_told(with_running_text(folder(), "eval", {"--limit", "2"}));
  expect_refused({"generate", "--model", "gpt2", "--config", config(), "--vocab", folder().string(), "--prompt", "The sea", "--weights", weights()}, 1,
                 "gemel: sampling: a logit is not finite; accepted: weights that are");
}

/// The only step's loss is finite, and its update is not: gradients of pixels so bright, times a rate so large, are beyond float32.
TEST_F(DataFiles, weights_that_the_last_step_made_infinite_are_not_saved_in_silence) {
  write_pictures(folder() / "data", 8, {0, 1, 0, 1, 0, 1, 0, 1}, 1e15f);  // all alike: half of the labels are wrong
  const Words step = joined(on_pictures(), {"--steps", "1", "--optimizer", "sgd", "--lr", "1e30", "--eval-every", "0"});
  expect_refused(joined(step, {"--save", in_folder("w.safetensors")}), 1, " is not finite at its element ");
  EXPECT_NE(read_text(folder() / "err").find(" after step 1: nothing is saved in " + in_folder("w.safetensors")), std::string::npos);
  EXPECT_FALSE(fs::exists(folder() / "w.safetensors"));
  expect_refused(joined(step, {"--checkpoint-dir", in_folder("c")}), 1, " after step 1: nothing is saved; accepted: weights that are finite");
  EXPECT_TRUE(fs::is_empty(folder() / "c"));
}

}  // namespace
}  // namespace gemel::testing
