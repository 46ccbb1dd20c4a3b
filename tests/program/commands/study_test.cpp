// gemel study from outside: a study of one's own, killed and resumed, within a budget, and what its report has.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "engine/base/files/folder_lock.h"
#include "engine/base/resource_limits.h"
#include "engine/base/usage/power_meter.h"
#include "tests/support/program/study_fixture.h"

namespace gemel::testing {
namespace {

TEST_F(StudyCommand, runs_ones_own_study_and_writes_its_report) {
  const Outcome o = run({"study", "run", file(), "--out", in_folder("r")});
  ASSERT_EQ(o.status, 0) << o.err;
  const std::vector<Json> all = runs("r");
  EXPECT_EQ(all.size(), 13u) << "three blocks of four, and once the one that does not fit";
  for (const Json& run : all) {
    const bool is_large = run["case"] == "too large";
    EXPECT_EQ(run["status"], is_large ? "does-not-fit" : "ok") << run;
    EXPECT_EQ(run["samples_ms"].size(), is_large ? 0u : 3u);
    EXPECT_EQ(run["metrics"].value("ms", 0.0) > 0, !is_large);
  }
  std::set<std::string> orders;
  for (int block = 0; block < 3; ++block) {
    std::string order;
    for (const Json& run : all)
      if (run["repeat"] == block && run["case"] != "too large") order += run["case"].get<std::string>() + ",";
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 1u) << "each block has an order of its own";
  EXPECT_NE(o.out.find("Graphs are faster. The ratio of ms is "), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("fewer than 6 processes of each case: no interval, no test, so nothing is decided."), std::string::npos) << o.out;
  const std::string report = read_text(folder() / "r/report.md");
  EXPECT_NE(report.find("- too large (block 1): does-not-fit: "), std::string::npos) << report;
  EXPECT_NE(report.find("| gemel, device | "), std::string::npos) << report;

  std::filesystem::remove(folder() / "r/report.html");
  ASSERT_EQ(run({"study", "report", in_folder("r")}).status, 0);
  EXPECT_TRUE(std::filesystem::exists(folder() / "r/report.html"));
  const Outcome compared = run({"study", "compare", in_folder("r"), in_folder("r")});
  EXPECT_EQ(compared.status, 0) << compared.err;
  EXPECT_NE(compared.out.find("| lenet/eager/batch-size=1 | "), std::string::npos) << compared.out;
  expect_refused({"study", "run", file(), "--out", in_folder("r")}, 2,
                 "study: " + in_folder("r") + " holds a study's results; accepted: --resume to go on with it, or another --out");
  expect_refused({"study", "run", file(), "--resume", "--seed", "2", "--out", in_folder("r")}, 2,
                 "study: " + in_folder("r") + " holds another study's results (seed differs); accepted: the same ");
}

TEST_F(StudyCommand, that_another_one_runs_in_is_refused) {
  const std::filesystem::path out = folder() / "r";
  const std::filesystem::path of_the_other = out / "last-run" / "a file";  // what it writes in its folder meanwhile
  std::filesystem::create_directories(of_the_other.parent_path());
  write_text(of_the_other, "");
  const FolderLock other(out, "study");
  for (const char* option : {"--quick", "--resume"})
    expect_refused({"study", "run", file(), option, "--out", out.string()}, 1, "study: " + out.string() + " is in use by another run, process ");
  EXPECT_FALSE(std::filesystem::exists(out / "runs.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(of_the_other));
}

TEST_F(StudyCommand, that_is_killed_at_ten_random_moments_goes_on_and_runs_nothing_twice) {
  const Words words{"study", "run", file(4, 20), "--out", in_folder("k"), "--resume"};
  const auto seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> moment_ms(0, 400);  // after its start; a run takes 150 and more
  std::size_t before = 0;
  for (int kill = 0; kill < 10; ++kill) {
    const pid_t study = start(words, [] { ::setpgid(0, 0); });
    ::setpgid(study, study);  // whoever is first
    std::this_thread::sleep_for(std::chrono::milliseconds(moment_ms(random)));
    ::kill(-study, SIGKILL);
    ASSERT_EQ(finish(study).status, 128 + SIGKILL) << "it ended before kill " << kill;
    const std::size_t now = finished_runs("k");
    EXPECT_GE(now, before) << "what was written is there";
    before = now;
  }
  std::ofstream(folder() / "k/runs.jsonl", std::ios::app) << "{\"order\": 9, \"case\": \"le";  // as a kill within a write would leave it
  const Outcome o = run(words);
  EXPECT_EQ(o.status, 0) << o.err;
  const std::vector<Json> all = runs("k");
  EXPECT_EQ(all.size(), 21u) << "the pilot's four, four blocks of four, and once the one that does not fit";
  for (const Json& run : all)
    if (run["status"] == "ok") {
      EXPECT_EQ(run["samples_ms"].size(), run["scale"] == 1 ? 20u : 4u) << run;
    }
  for (const auto& [name, times] : times_run(all)) EXPECT_EQ(times, 1) << name;
  std::set<int> orders;
  for (const Json& run : all) orders.insert(run["order"].get<int>());
  EXPECT_EQ(orders.size(), all.size());
}

TEST_F(StudyCommand, whose_budget_has_ended_says_what_did_not_run_and_goes_on) {
  const Words words{"study", "run", file(), "--out", in_folder("b")};
  ASSERT_EQ(run(joined(words, {"--budget", "1e-4"})).status, 0);
  EXPECT_LT(runs("b").size(), 5u);
  EXPECT_NE(read_text(folder() / "b/report.md").find("not run: the budget ended before"), std::string::npos);
  ASSERT_EQ(run(joined(words, {"--resume"})).status, 0);
  EXPECT_EQ(runs("b").size(), 13u);
}

TEST_F(StudyCommand, whose_budget_is_short_runs_fewer_steps_and_says_so) {
  const Words words{"study", "run", file(2, 20000), "--out", in_folder("s"), "--budget"};
  const Outcome o = run(joined(words, {"0.2"}));
  ASSERT_EQ(o.status, 0) << o.err;
  const double scale = Json::parse(read_text(folder() / "s/study.json"))["scale"];
  constexpr double kLeast = 0.2;  // which pilots run
  EXPECT_TRUE(scale >= kLeast && scale < 1) << scale;
  EXPECT_NE(o.err.find(fmt::format("to keep to the budget processes run as few as {:.0f} % of the study's steps, but 4 steps, or an epoch of fewer samples, "
                                   "at least",
                                   100 * scale)),
            std::string::npos)
      << o.err;
  std::size_t measured = 0;
  for (const Json& run : runs("s")) {
    EXPECT_TRUE(run["scale"] == scale || run["scale"] == kLeast) << run["scale"];
    if (run["status"] != "ok") continue;
    EXPECT_EQ(static_cast<double>(run["samples_ms"].size()), 20000 * run["scale"].get<double>());
    ++measured;
  }
  EXPECT_GE(measured, 1u);
  EXPECT_NE(read_text(folder() / "s/report.md")
                .find(fmt::format("To end within its budget processes ran as few as {:.0f} % of the steps that the study asks for, but 4 steps, or an epoch of "
                                  "fewer samples, at least.",
                                  100 * scale)),
            std::string::npos);
  const std::size_t before = runs("s").size();
  file(3, 20000);
  ASSERT_EQ(run(joined(words, {"10", "--resume"})).status, 0);
  EXPECT_GT(runs("s").size(), before) << "the third block at least";
  for (const Json& run : runs("s")) EXPECT_TRUE(run["scale"] == scale || run["scale"] == kLeast) << "as it was decided";
}

TEST_F(StudyCommand, prints_commands_that_run_when_they_are_copied) {
  std::ofstream(folder() / "copied.toml") << R"(
title = "T"
question = "Q"
most_repeats = 1
spec = { model = "lenet", input = "1x32x32", frontend = "graph", classes = 10, batch-size = 2 }
[[grid]]
axes = { work = [{ name = "infer", command = "bench infer", warmup = 1, runs = 2 }, { name = "it's trained", command = "train", limit = 4, cores = 1 },
  { name = "too large", command = "bench infer", memory-limit = "1K" }] }
)";
  ASSERT_EQ(run({"study", "run", in_folder("copied.toml"), "--out", in_folder("r")}).status, 0);
  const Words lines = lines_of(read_text(folder() / "r/report.md"));
  const auto begin = std::ranges::find(lines, "```");
  ASSERT_NE(begin, lines.end());
  std::map<std::string, std::string> commands;
  for (auto line = begin + 1; line + 1 < lines.end() && *line != "```"; line += 2) {
    ASSERT_TRUE(line->starts_with("# ")) << *line;
    commands[line->substr(2)] = *(line + 1);
  }
  ASSERT_EQ(commands.size(), 3u);
  EXPECT_TRUE(commands["it's trained"].starts_with("taskset -c ")) << commands["it's trained"];
  const std::filesystem::path elsewhere = folder() / "elsewhere";
  std::filesystem::create_directories(elsewhere);
  const auto shell = [&](const std::string& command) { return std::system(fmt::format("cd {} && {{ {}\n}} >out 2>err", elsewhere.string(), command).c_str()); };
  EXPECT_EQ(shell(commands["infer"]), 0) << read_text(elsewhere / "err");
  EXPECT_NE(read_text(elsewhere / "out").find("infer/lenet/2/1x32x32/graph"), std::string::npos);
  EXPECT_EQ(shell(commands["it's trained"]), 0) << read_text(elsewhere / "err");
  EXPECT_NE(read_text(elsewhere / "out").find("epoch 1: "), std::string::npos);
  EXPECT_NE(shell(commands["too large"]), 0) << "as in the study";
  EXPECT_NE(read_text(elsewhere / "err").find("memory"), std::string::npos) << read_text(elsewhere / "err");
}

TEST_F(StudyCommand, says_which_case_of_how_many_it_runs_and_leaves_no_number_out) {
  const Outcome o = run({"study", "run", file(3, 20), "--out", in_folder("n"), "--budget", "3"});
  ASSERT_EQ(o.status, 0) << o.err;
  int pilots = 0, of_blocks = 0;
  for (const std::string& line : lines_of(o.err)) {
    int block = 0, blocks = 0, c = 0, cases = 0;
    if (std::sscanf(line.c_str(), "pilot, case %d of %d: ", &c, &cases) == 2) {
      EXPECT_EQ(c, ++pilots) << line;
      EXPECT_EQ(cases, 5) << line;
      EXPECT_NE(line.find("; at most "), line.npos) << line;
    } else if (std::sscanf(line.c_str(), "block %d of %d, case %d of %d: ", &block, &blocks, &c, &cases) == 4) {
      EXPECT_EQ(blocks, 3) << line;
      EXPECT_EQ(cases, 4) << line << ": without the one that does not fit";
      EXPECT_EQ(4 * (block - 1) + c, ++of_blocks) << line;
    }
  }
  EXPECT_EQ(pilots, 5) << o.err;
  EXPECT_EQ(of_blocks, 12) << o.err;
}

TEST_F(StudyCommand, what_was_missing_is_tried_again_by_a_study_that_goes_on) {
  std::ofstream(folder() / "later.toml") << R"(
title = "T"
question = "Q"
most_repeats = 1
[[grid]]
spec = { command = "train", model = "lenet", dataset = "synthetic", input = "1x32x32", classes = 10, batch-size = 2, limit = 8, steps = 2, eval-every = 0 }
axes = { from = [{ name = "a file", weights = "{data}/lenet.safetensors" }, { name = "nothing" }] }
)";
  std::filesystem::create_directories(folder() / "data");
  const Words words{"study", "run", in_folder("later.toml"), "--out", in_folder("l"), "--data", in_folder("data")};
  ASSERT_EQ(run(words).status, 0);
  auto all = times_run(runs("l"));
  EXPECT_EQ(all.size(), 2u);
  const Outcome made = run({"train", "--model", "lenet", "--dataset", "synthetic", "--input", "1x32x32", "--classes", "10", "--batch-size", "2", "--limit", "8",
                            "--steps", "1", "--save", in_folder("data/lenet.safetensors")});
  ASSERT_EQ(made.status, 0) << made.err;
  ASSERT_EQ(run(joined(words, {"--resume"})).status, 0);
  for (const Json& run : runs("l")) EXPECT_EQ(run["status"], "ok") << run["reason"];
  EXPECT_EQ(runs("l").size(), 2u) << "what was there has not run again";
}

TEST_F(StudyCommand, says_which_data_are_not_the_official_ones) {
  std::filesystem::create_directories(folder() / "data/one");
  std::filesystem::create_directories(folder() / "data/two");
  write_text(folder() / "data/one/file", "\x06;+2 and more");
  write_text(folder() / "data/two/file", "\x06;+");
  std::ofstream(folder() / "data.toml") << R"(
title = "T"
question = "Q"
most_repeats = 1
spec = { command = "bench infer", model = "lenet", input = "1x32x32", frontend = "graph", batch-size = 1, warmup = 1, runs = 3 }
[data]
one = { from = "here", file = "file", begins = "063b2b32" }
two = { from = "there", file = "file", begins = "063b2b32" }
gone = { from = "nowhere", file = "file", begins = "063b2b32" }
[[grid]]
axes = { model = ["lenet"] }
)";
  ASSERT_EQ(run({"study", "run", in_folder("data.toml"), "--data", in_folder("data"), "--out", in_folder("d")}).status, 0);
  const std::string report = read_text(folder() / "d/report.md");
  EXPECT_NE(report.find(" The files of two are not the official ones: accuracies do not compare with published ones."), std::string::npos) << report;
}

TEST_F(StudyCommand, measures_what_a_run_uses_and_its_epochs_and_gives_it_the_cores_that_are_asked_for) {
  std::ofstream(folder() / "used.toml") << R"(
title = "T"
question = "Q"
most_repeats = 1
spec = { command = "train", model = "lenet", frontend = "graph", batch-size = 32, limit = 640, epochs = 40, epoch-samples = 50000 }
[[grid]]
axes = { how = [{ name = "one", cores = 1 }, { name = "many", cores = 9999 }, { name = "busy", cores = 1, busy-cores = 1, epochs = 20 }] }
[[table]]
name = "epoch"
caption = "Time of an epoch"
metric = "epoch_s"
rows = ["how"]
[[table]]
name = "power"
caption = "Energy"
metric = "joules_per_sample"
rows = ["how"]
[[curve]]
name = "loss"
caption = "Loss over time."
y = "val_loss"
lines = ["how"]
[[curve]]
name = "cpu"
caption = "Processor over time."
of = "usage"
y = "cpu"
)";
  ASSERT_EQ(run({"study", "run", in_folder("used.toml"), "--out", in_folder("u")}).status, 0);
  const PowerMeter meter;
  const std::string no_power = meter.why_none().empty() ? meter.why_no_packages() : meter.why_none();  // a card says nothing of the processor
  for (const Json& run : runs("u")) {
    if (run["scale"] != 1 && run["status"] == "ok") continue;  // the pilot
    if (run["case"] == "many") {
      EXPECT_EQ(run["status"], "missing");
      EXPECT_EQ(run["reason"], fmt::format("9999 cores are asked for, and this process may use {}", allowed_cores().count()));
      continue;
    }
    if (run["case"] == "busy") {
      EXPECT_LT(run["metrics"]["utilisation"].get<double>(), 0.8) << "another program has half of its core";
      continue;
    }
    EXPECT_EQ(run["machine"]["device"]["compute_units"], 1) << run["machine"];
    const Json& metrics = run["metrics"];
    EXPECT_NEAR(metrics["epoch_s"].get<double>(), 1e-3 * metrics["ms"].get<double>() * 1563, 1e-9) << "50 000 in batches of 32";
    EXPECT_GT(metrics["utilisation"], 0);
    EXPECT_GT(metrics["peak_resident_bytes"], 1 << 20);
    EXPECT_EQ(metrics.contains("joules_per_sample"), no_power.empty());
    ASSERT_EQ(run["epochs"].size(), 40u);
    EXPECT_EQ(run["epochs"][39]["samples"], 40 * 640);
    EXPECT_GT(run["epochs"][39]["seconds"], run["epochs"][0]["seconds"]);
  }
  EXPECT_EQ(lines_of(read_text(folder() / "u/plots/loss.csv")).size(), 61u);
  EXPECT_GE(lines_of(read_text(folder() / "u/plots/cpu.csv")).size(), 2u);
  if (!no_power.empty()) {
    EXPECT_NE(read_text(folder() / "u/report.md").find(": no joules_per_sample: " + no_power), std::string::npos);
  }
}

TEST_F(StudyCommand, measures_the_peak_of_the_device_once_where_a_plot_shows_it) {
  std::ofstream(folder() / "peak.toml") << R"(
title = "T"
question = "Q"
most_repeats = 1
spec = { command = "bench infer", model = "lenet", input = "1x32x32", frontend = "graph", warmup = 1, runs = 3 }
[[grid]]
axes = { batch-size = [1, 4] }
[[plot]]
name = "times"
caption = "Times."
x = "batch-size"
bound = true
)";
  const Words words{"study", "run", in_folder("peak.toml"), "--out", in_folder("p")};
  ASSERT_EQ(run(words).status, 0);
  const std::string peak = read_text(folder() / "p/device.json");
  EXPECT_GT(Json::parse(peak)["flops_per_second"], 1e8) << peak;
  EXPECT_GT(Json::parse(peak)["read_bytes_per_second"], 1e7) << peak;
  EXPECT_EQ(lines_of(read_text(folder() / "p/plots/times-bound.csv")).size(), 3u) << "two cases under a head";
  ASSERT_EQ(run(joined(words, {"--resume"})).status, 0);
  EXPECT_EQ(read_text(folder() / "p/device.json"), peak);
}

}  // namespace
}  // namespace gemel::testing
