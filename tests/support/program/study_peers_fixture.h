// StudyPeers: studies with peers, made-up ones where their environment is the folder's, whose Python is tests/data/peers/python.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "datasets/formats/npy.h"
#include "frontends/study/study.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {

class StudyPeers : public CommandLine {
 protected:
  void SetUp() override {
    if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "python3 is not there";
    std::filesystem::create_directories(folder() / "env/bin");
    std::filesystem::copy_file(std::filesystem::path(GEMEL_SOURCE_DIR) / "tests/data/peers/python", folder() / "env/bin/python");
  }
  /// @param framework  values of the axis behind Gemel's
  std::string file(const std::string& framework, const std::string& more = "") {
    std::ofstream(folder() / "peers.toml") << R"(
title = "Peers"
question = "Which?"
most_repeats = 2
spec = { model = "lenet", input = "1x32x32", batch-size = 2, warmup = 1, runs = 3, classes = 10 }
[[grid]]
[grid.axes]
work = [{ name = "train", command = "bench train" }, { name = "infer", command = "bench infer" }]
framework = [
  { name = "eager", frontend = "eager" },
)" << framework << R"(]
[[table]]
name = "times"
caption = "Times"
rows = ["work"]
columns = "framework"
[[hypothesis]]
name = "work"
claim = "Training takes longer."
source = "nobody"
a = { work = "train" }
b = { work = "infer" }
where = { framework = "eager" }
expected = "above 1"
)" << more;
    return in_folder("peers.toml");
  }
  /// The study of a small BERT on four pairs of texts, of which three are used.
  std::string file_of_texts(const std::string& framework) {
    std::filesystem::create_directories(folder() / "data/mrpc");
    std::ofstream(folder() / "data/vocab.txt") << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\n";
    for (const char* split : {"train", "dev"})
      std::ofstream(folder() / "data/mrpc" / (std::string(split) + ".tsv"))
          << "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\ta b\tc\n0\t1\t2\td\tb\n1\t1\t2\ta\tA b\n0\t1\t2\ta a a a a a\ta\n";
    std::ofstream(folder() / "texts.toml") << R"(
title = "Texts"
question = "Which?"
most_repeats = 1
spec = { command = "train", model = "bert", config = "tiny", dataset = "mrpc", data = "{data}/mrpc", vocab = "{data}/vocab.txt" }
[[grid]]
spec = { max-length = 16, batch-size = 2, steps = 2, limit = 3, optimizer = "adamw", lr = 1e-5, eval-every = 0 }
[grid.axes]
framework = [
)" << framework << R"(]
[[table]]
name = "times"
caption = "Times"
rows = ["framework"]
)";
    return in_folder("texts.toml");
  }
  /// The numbers of an array.
  std::vector<std::int64_t> array(const std::filesystem::path& file) {
    const datasets::NpyFile npy(file);
    std::vector<std::int64_t> out(static_cast<std::size_t>(npy.shape().elements()));
    npy.read(0, std::as_writable_bytes(std::span(out)));
    return out;
  }
  Words with_peers(const std::string& study) { return {"study", "run", study, "--out", in_folder("r"), "--peers", in_folder("env")}; }
  std::map<std::string, std::vector<Json>> runs() {
    std::map<std::string, std::vector<Json>> out;
    for (const std::string& line : lines_of(read_text(folder() / "r/runs.jsonl"))) {
      const Json run = Json::parse(line);
      out[run["case"]].push_back(run);
    }
    return out;
  }
  /// What a peer's program says of a spec where no package is there.
  std::string refusal(const Json& spec) {
    std::ofstream(folder() / "spec.json") << spec.dump();
    const std::filesystem::path program = study::peers_folder() / (spec["peer"].get<std::string>() + "_peer.py");
    const std::string words =
        fmt::format("python3 -S -E {} --spec {} --out {} 2>{}", program.string(), in_folder("spec.json"), in_folder("o"), in_folder("err"));
    EXPECT_EQ(std::system(words.c_str()), 2 << 8) << words;  // as it ends where something is not there
    return read_text(folder() / "err");
  }
  /// How often the environment's Python ran that.
  std::int64_t calls(const std::string& line) {
    const Words all = lines_of(read_text(folder() / "env/bin/calls"));
    return std::ranges::count(all, line);
  }
};

inline constexpr const char* kPyTorch = "  { name = \"pytorch\", peer = \"pytorch\" },\n";

}  // namespace gemel::testing
