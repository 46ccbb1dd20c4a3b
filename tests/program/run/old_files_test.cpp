// Files that version 0.1.0 saved (tests/data/saved_by_0_1_0) are read by this program as they were meant.
//
// They come from another machine, and float32 sums differ in their last bits between processors. So what is compared to the bit is what no kernel computed
// here: the weights that a file holds, the step, the place in the epoch, the rates, and two runs of this machine with each other. What kernels compute is
// compared with what the old program logged, within a tolerance.
#include <fmt/format.h>

#include <cstring>
#include <map>

#include "datasets/formats/npy.h"
#include "engine/files/safetensors.h"
#include "tests/support/expect_near.h"
#include "tests/support/program/job_fixture.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

const fs::path kSaved = fs::path(GEMEL_SOURCE_DIR) / "tests/data/saved_by_0_1_0";

/// The contents of the tensors whose names begin so, by the rest of the name.
std::map<std::string, std::vector<std::byte>> tensors_in(const fs::path& path, const std::string& prefix) {
  const SafetensorsFile file(path);
  std::map<std::string, std::vector<std::byte>> out;
  for (const NamedTensor& t : file.tensors())
    if (t.name.starts_with(prefix)) out[t.name.substr(prefix.size())] = {t.data.begin(), t.data.end()};
  return out;
}

std::vector<double> numbers_in(const fs::path& npy) {
  const std::vector<std::byte> bytes = datasets::NpyFile(npy).data();
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return {out.begin(), out.end()};
}

class OldFiles : public Job {
 protected:
  void SetUp() override {}  // most need no mpirun

  /// A command, run in the folder of the files: paths are a part of what a checkpoint tells runs apart by.
  Outcome run_there(const Words& arguments) {
    return finish(start_job(arguments, [] {
      if (::chdir(kSaved.c_str()) != 0) ::_exit(127);
    }));
  }
  static Json run_of(const std::string& name) { return Json::parse(read_text(kSaved / "runs.json")).at(name); }
  static Words training_of(const std::string& name) { return joined({"train"}, run_of(name)["arguments"].get<Words>()); }
  /// With another value of an option, which may be among them.
  static Words with(Words words, const std::string& option, const std::string& value) {
    const auto found = std::ranges::find(words, option);
    if (found == words.end()) return joined(words, {option, value});
    found[1] = value;
    return words;
  }
  static std::string checkpoint_of(const std::string& name) { return name + ".checkpoint.safetensors"; }

  /// The weights that the run had when its checkpoint was written: a run that is at its end trains nothing.
  std::string weights_of_checkpoint(const std::string& name) {
    const std::string saved = in_folder("saved.safetensors"), step = std::to_string(run_of(name)["saved_after"].get<int>());
    const Outcome o = run_there(joined(training_of(name), {"--steps", step, "--resume", checkpoint_of(name), "--save", saved}));
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_NE(o.err.find("resume: the run is at its end: nothing is trained"), std::string::npos) << o.err;
    return saved;
  }
  /// Goes on to the end of the run that was saved, with its settings. @param resume  as the option takes it  @return the bytes of its weights
  std::string weights_at_end(const std::string& name, const std::string& resume, const Words& more = {}) {
    const std::string saved = in_folder("end.safetensors"), end = std::to_string(run_of(name)["ends_after"].get<int>());
    const Outcome o = run_there(joined(joined(training_of(name), {"--steps", end, "--resume", resume, "--save", saved}), more));
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(number_after(o.err, "resume: going on after step "), run_of(name)["saved_after"].get<int>()) << o.err;
    for (const std::string& line : lines_of(o.err))
      EXPECT_TRUE(!line.starts_with("resume: warning: ") || line.ends_with("; results may differ in the last bits"))
          << "a setting is the same, and was not found in the file: " << line;
    return read_text(saved);
  }
};

class OldCheckpoints : public OldFiles, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    const int ranks = run_of(GetParam())["ranks"];
    if (ranks == 1) return;
    Job::SetUp();
    on_ranks(ranks);
  }
};

TEST_P(OldCheckpoints, give_back_the_weights_that_they_hold) {
  const auto held = tensors_in(kSaved / checkpoint_of(GetParam()), "model.");
  EXPECT_GT(held.size(), 5u);
  EXPECT_TRUE(tensors_in(weights_of_checkpoint(GetParam()), "") == held);
}

/// The order of samples, the draws of dropout and augmentation, the rate and the optimizer's state are in the losses of the steps that follow.
TEST_P(OldCheckpoints, go_on_as_the_program_did_that_saved_them) {
  const std::string name = GetParam();
  const std::string once = weights_at_end(name, checkpoint_of(name), {"--log-dir", in_folder("log")});
  std::vector<Json> steps;
  for (const Json& e : events("log"))
    if (e["event"] == "step") steps.push_back(e);
  const Json expected = Json::parse(read_text(kSaved / (name + ".steps.json")));
  ASSERT_EQ(steps.size(), expected.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const char* key : {"step", "epoch", "lr"}) EXPECT_EQ(steps[i][key], expected[i][key]) << key << " of step " << i;
    // Sums in another order differ by some last places of 6e-8; an optimizer that divides by small numbers carries on more of that.
    EXPECT_NEAR(steps[i]["loss"], expected[i]["loss"], 2e-5 * expected[i]["loss"].get<double>()) << "loss of step " << i;
  }
  fs::create_directory(folder() / "c");
  fs::copy(kSaved / checkpoint_of(name), folder() / "c" / ("checkpoint-" + std::to_string(run_of(name)["saved_after"].get<int>()) + ".safetensors"));
  const std::string again = weights_at_end(name, "auto", {"--checkpoint-dir", in_folder("c")});
  EXPECT_TRUE(once == again) << "two runs from one file have other weights";
}

INSTANTIATE_TEST_SUITE_P(, OldCheckpoints, ::testing::Values("pictures", "texts", "rows", "two_ranks", "two_stages"),
                         [](const auto& p) { return std::string(p.param); });

TEST_F(OldFiles, checkpoints_know_the_settings_of_their_runs) {
  struct Change {
    const char *option, *was, *now;
  };
  const auto resume = [](const char* name, const Change& c) {
    return joined(with(training_of(name), c.option, c.now), {"--steps", "5", "--resume", checkpoint_of(name)});
  };
  const auto tells = [](const Outcome& o, const Change& c) { return o.err.find(fmt::format("'{}', is now '{}'", c.was, c.now)) != std::string::npos; };
  for (const Change& c : {Change{"--seed", "7", "8"}, {"--batch-size", "2", "3"}, {"--shuffle", "on", "off"}, {"--optimizer", "sgd", "adam"}}) {
    const Outcome o = run_there(resume("pictures", c));
    EXPECT_EQ(o.status, 1) << c.option;
    EXPECT_TRUE(tells(o, c)) << c.option << ": " << o.err;
  }
  for (const Change& c : {Change{"--lr", "0.05", "0.06"}, {"--weight-decay", "0.01", "0.02"}, {"--augment", "standard", "none"}}) {
    const Outcome o = run_there(resume("pictures", c));
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_TRUE(tells(o, c)) << c.option << ": " << o.err;
  }
}

/// A pipeline's checkpoint is of the whole model.
TEST_F(OldFiles, a_checkpoint_of_two_stages_goes_on_in_one_process) {
  Words training = training_of("two_stages");
  for (const char* option : {"--parallel", "--stages", "--microbatches"}) {
    const auto found = std::ranges::find(training, option);
    training.erase(found, found + 2);
  }
  const Outcome o = run_there(joined(training, {"--accumulate", "2", "--steps", "6", "--resume", checkpoint_of("two_stages"), "--log-dir", in_folder("log")}));
  ASSERT_EQ(o.status, 0) << o.err;
  const Json expected = Json::parse(read_text(kSaved / "two_stages.steps.json"));
  const auto got = losses("log");
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i]["loss"], 2e-5 * got[i]) << "as above";
}

TEST_F(OldFiles, weights_are_read_to_the_bit) {
  const std::string saved = in_folder("saved.safetensors");
  Words training = training_of("texts");
  for (const auto& [option, value] : {std::pair{"--optimizer", "sgd"}, {"--lr", "0"}}) training = with(training, option, value);
  const Outcome o = run_there(joined(training, {"--steps", "3", "--weights", "texts.weights.safetensors", "--save", saved}));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(tensors_in(saved, "") == tensors_in(kSaved / "texts.weights.safetensors", "")) << "a rate of 0 leaves weights as they are";
}

/// Logits are near 1; float32 sums of some hundred products in another order differ by some last places of 6e-8.
constexpr double kLogits = 1e-5;

TEST_F(OldFiles, weights_compute_what_they_did) {
  const auto expect_outputs = [this](const Words& infer, const std::string& expected) {
    const Outcome o = run_there(joined(infer, {"--output", in_folder("outputs.npy")}));
    ASSERT_EQ(o.status, 0) << o.err;
    expect_near(numbers_in(folder() / "outputs.npy"), numbers_in(kSaved / expected), kLogits, expected);
  };
  expect_outputs({"infer", "--model", "bert", "--config", "texts/bert.json", "--weights", "texts.weights.safetensors", "--input", "texts/ids.npy"},
                 "texts.outputs.npy");
  const std::string pictures = weights_of_checkpoint("pictures");
  expect_outputs({"infer", "--model", "lenet", "--weights", pictures, "--input", "pictures/images.npy"}, "pictures.outputs.npy");
}

/// A table is of a device and is looked for under its name: this one is put where this device's is. A variant that it names may decline here.
TEST_F(OldFiles, a_tuning_table_chooses_the_variants_that_it_names) {
  const auto with_cache = [this](const Words& words) {
    return run(words, [this] {
      ::setenv("GEMEL_CACHE_DIR", in_folder("cache").c_str(), 1);
      ::setenv("GEMEL_VERBOSE", "dispatch", 1);
    });
  };
  const std::string told = with_cache({"tune", "--forget"}).err, word = "table: ";
  const auto at = told.find(word);
  ASSERT_NE(at, std::string::npos) << told;
  write_text(told.substr(at + word.size(), told.find('\n', at) - at - word.size()), read_text(kSaved / "tuning.json"));
  const Json table = Json::parse(read_text(kSaved / "tuning.json"));
  const Outcome o = with_cache({"train", "--model", "lenet", "--dataset", "npy", "--data", (kSaved / "pictures").string(), "--batch-size", "2", "--steps", "1",
                                "--log-dir", in_folder("log")});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(events("log").front()["device"]["tuning"], table["checksum"]);
  EXPECT_EQ(table["variants"].size(), 5u);
  for (const auto& [problem, variant] : table["variants"].items()) {
    const std::string name = variant, begin = "dispatch: " + problem + " -> ";
    const auto lines = lines_of(o.err);
    const auto line = std::ranges::find_if(lines, [&](const std::string& l) { return l.starts_with(begin); });
    ASSERT_NE(line, lines.end()) << problem << "\n" << o.err;
    EXPECT_TRUE(line->starts_with(begin + name + " (tuned)") || line->find("; " + name + " declines: ") != std::string::npos) << *line;
  }
}

}  // namespace
}  // namespace gemel::testing
