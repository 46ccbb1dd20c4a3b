// Data that change while the gemel program reads them, and numbers that are none: it says so and ends, with a record that is whole.
#include <limits>

#include "engine/files/safetensors.h"
#include "tests/pictures_folder.h"
#include "tests/program.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

class DataFiles : public CommandLine {
 protected:
  /// A run that only what happens to its data ends. It happens after the first epoch.
  Outcome run_until(const std::function<void()>& happens, const Words& arguments) {
    fs::remove_all(folder() / "log");
    const pid_t child = start(joined(arguments, {"--epochs", "1000000", "--log-dir", in_folder("log")}));
    while (read_text(folder() / "log" / "run.jsonl").find("\"epoch\":2") == std::string::npos && ::waitpid(child, nullptr, WNOHANG) == 0) std::this_thread::yield();
    happens();
    return finish(child);
  }
  void expect_told(const Outcome& o, const std::string& file, const std::string& how) {
    EXPECT_EQ(o.status, 1) << o.err;
    EXPECT_EQ(lines_of(o.err).back(), "gemel: read: " + in_folder(file) + " has changed since it was opened: " + how + "; accepted: data that stay as they are while they are in use");
    EXPECT_EQ(events("log").back()["event"], "end");
    EXPECT_EQ(events("log").back()["status"], "failed");
  }
  Words on_pictures() const { return {"train", "--model", "lenet", "--batch-size", "8", "--dataset", "npy", "--data", in_folder("data")}; }

  /// Weights of lenet, one of which is no number.
  void write_weights_with_a_nan(const std::string& name) {
    ASSERT_EQ(run(training({"--steps", "1", "--save", in_folder("good.safetensors")})).status, 0);
    const SafetensorsFile good(folder() / "good.safetensors");
    std::vector<NamedTensor> tensors(good.tensors().begin(), good.tensors().end());
    std::vector<float> bias(10, 0);
    bias[3] = std::numeric_limits<float>::quiet_NaN();
    for (NamedTensor& t : tensors)
      if (t.name == "fc3.bias") t.data = std::as_bytes(std::span(bias));
    write_safetensors(folder() / name, tensors);
  }
};

TEST_F(DataFiles, one_that_shrinks_or_is_replaced_under_a_run_is_named_and_the_record_has_its_end) {
  write_pictures(folder() / "data", 16, std::vector<std::int64_t>(16, 1));
  const auto size = fs::file_size(folder() / "data/images.npy");
  expect_told(run_until([&] { fs::resize_file(folder() / "data/images.npy", 1000); }, on_pictures()), "data/images.npy", "it had " + std::to_string(size) + " bytes, and has 1000");
  write_pictures(folder() / "data", 16, std::vector<std::int64_t>(16, 1));
  expect_told(run_until([&] { write_pictures(folder() / "data", 16, std::vector<std::int64_t>(16, 2)); }, on_pictures()), "data/images.npy", "another file is in its place");
}

TEST_F(DataFiles, weights_that_give_no_number_are_told_by_eval_and_infer) {
  write_weights_with_a_nan("nan.safetensors");
  write_pictures(folder() / "data", 4, {0, 1, 2, 3});
  expect_refused({"eval", "--model", "lenet", "--limit", "8", "--weights", in_folder("nan.safetensors"), "--log-dir", in_folder("log")}, 1, "gemel: eval: the loss is ");
  EXPECT_EQ(events("log").back()["status"], "failed");
  expect_refused({"infer", "--model", "lenet", "--weights", in_folder("nan.safetensors"), "--input", in_folder("data/images.npy"), "--output", in_folder("y.npy")}, 1,
                 "gemel: infer: the output of sample 0 (from 0) is not finite; accepted: ");
  EXPECT_FALSE(fs::exists(folder() / "y.npy"));
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
