// Runs that write checkpoints, and what they leave: for tests that end them in the middle.
#pragma once
#include <cstddef>
#include <filesystem>
#include <numeric>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "tests/support/formats/tensorboard_events.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {

class Resume : public CommandLine {
 protected:
  /// Epochs of 5 steps, with a checkpoint after each step.
  std::vector<std::string> with_checkpoints(const std::vector<std::string>& more = {}, const char* epochs = "3") const {
    std::vector<std::string> out = training({"--epochs", epochs, "--checkpoint-dir", in_folder("c"), "--checkpoint-every", "1", "--log-dir", in_folder("log")});
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  std::size_t temporaries() const {
    std::size_t count = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder() / "c", error)) count += entry.path().extension() == ".tmp";
    return count;
  }
  std::string checkpoint(int step) const { return in_folder("c/checkpoint-" + std::to_string(step) + ".safetensors"); }

  void expect_no_locks() const {
    for (const char* name : {"c", "log"})
      for (const auto& entry : std::filesystem::directory_iterator(folder() / name)) EXPECT_NE(entry.path().extension(), ".lock") << entry.path();
  }

  /// The step after which a run went on, as it says. 0 where it did not.
  static int resumed_after(const Outcome& o) {
    const std::string words = "resume: going on after step ";
    const std::size_t at = o.err.find(words);
    return at == std::string::npos ? 0 : std::stoi(o.err.substr(at + words.size()));
  }

  /// The log of epochs of 5 steps that were told once each, in order.
  void expect_a_whole_log(int count = 3) const {
    std::vector<int> steps, epochs;
    for (const Json& e : events("log")) {
      if (e["event"] == "step") steps.push_back(e["step"]);
      if (e["event"] == "epoch") epochs.push_back(e["epoch"]);
    }
    std::vector<int> all(static_cast<std::size_t>(5 * count));
    std::iota(all.begin(), all.end(), 1);
    EXPECT_EQ(steps, all);
    EXPECT_EQ(epochs, std::vector<int>(all.begin(), all.begin() + count));
    for (const auto& [tag, points] : points_shown(folder() / "log")) {
      std::vector<int> shown, of_epochs;
      for (const auto& [step, value] : points) shown.push_back(static_cast<int>(step));
      for (int epoch = 1; epoch <= count; ++epoch) of_epochs.push_back(5 * epoch);
      EXPECT_EQ(shown, tag == "train/loss" || tag == "train/lr" ? all : of_epochs) << "in TensorBoard, " << tag;
    }
    expect_no_locks();
  }
};

}  // namespace gemel::testing
