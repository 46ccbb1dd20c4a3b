// StudyCommand: `gemel study` on a study of one's own.
#pragma once
#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {

class StudyCommand : public CommandLine {
 protected:
  /// Four cases that take a moment each, and one that does not fit. More than four steps can be shortened by a budget.
  std::string file(int blocks = 3, int steps = 3) {
    std::ofstream(folder() / "own.toml") << "most_repeats = " << blocks
                                         << "\nspec = { command = \"bench infer\", input = \"1x32x32\", warmup = 1, runs = " << steps << R"( }
title = "My own"
question = "Is it?"
narrow = 1e-9
[[grid]]
axes = { model = ["lenet"], frontend = ["eager", "graph"], batch-size = [1, 4] }
[[grid]]
axes = { model = [{ name = "too large", model = "vgg16", input = "3x224x224", frontend = "graph", batch-size = 4096, memory-limit = "64M" }] }
[[table]]
name = "times"
caption = "Times"
rows = ["model", "frontend"]
columns = "batch-size"
[[hypothesis]]
name = "graph"
claim = "Graphs are faster."
source = "nobody"
a = { frontend = "graph" }
b = { frontend = "eager" }
expected = "below 1"
)";
    return in_folder("own.toml");
  }
  std::vector<Json> runs(const std::string& out) {
    std::vector<Json> all;
    for (const std::string& line : lines_of(read_text(folder() / out / "runs.jsonl"))) all.push_back(Json::parse(line));
    return all;
  }
  /// Lines of its record that are whole.
  std::size_t finished_runs(const std::string& out) {
    const std::filesystem::path record = folder() / out / "runs.jsonl";
    return std::filesystem::exists(record) ? static_cast<std::size_t>(std::ranges::count(read_text(record), '\n')) : 0;
  }
  static std::map<std::string, int> times_run(const std::vector<Json>& runs) {
    std::map<std::string, int> out;
    for (const Json& run : runs) ++out[run["case"].get<std::string>() + " " + run["repeat"].dump() + " " + run["scale"].dump()];
    return out;
  }
};

}  // namespace gemel::testing
