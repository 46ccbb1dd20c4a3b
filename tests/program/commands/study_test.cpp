// gemel study from outside: a study of one's own, killed and resumed, and what is refused.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "engine/base/files/folder_lock.h"
#include "engine/base/resource_limits.h"
#include "engine/base/usage/power_meter.h"
#include "frontends/study/runner/case_process.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

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
  std::filesystem::create_directories(out);
  const FolderLock other(out, "study");
  for (const char* option : {"--quick", "--resume"})
    expect_refused({"study", "run", file(), option, "--out", out.string()}, 1, "study: " + out.string() + " is in use by another run, process ");
  EXPECT_FALSE(std::filesystem::exists(out / "runs.jsonl"));
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
  EXPECT_NE(o.err.find("to keep to the budget processes run as few as 20 % of the study's steps, but 4 steps, or an epoch of fewer samples, at least"),
            std::string::npos)
      << o.err;
  const double scale = Json::parse(read_text(folder() / "s/study.json"))["scale"];
  EXPECT_EQ(scale, 0.2);
  std::size_t measured = 0;
  for (const Json& run : runs("s")) {
    EXPECT_EQ(run["scale"], scale);
    if (run["status"] != "ok") continue;
    EXPECT_EQ(run["samples_ms"].size(), 4000u);
    ++measured;
  }
  EXPECT_GE(measured, 1u);
  EXPECT_NE(read_text(folder() / "s/report.md")
                .find("To end within its budget processes ran as few as 20 % of the steps that the study asks for, but 4 steps, or an epoch of fewer samples, "
                      "at least."),
            std::string::npos);
  const std::size_t before = runs("s").size();
  ASSERT_EQ(run(joined(words, {"10", "--resume"})).status, 0);
  EXPECT_GT(runs("s").size(), before);
  for (const Json& run : runs("s")) EXPECT_EQ(run["scale"], scale) << "as it was decided";
}

TEST_F(StudyCommand, cases_that_fail_miss_something_or_take_too_long_are_gaps_with_their_reasons) {
  const auto with = [&](const std::string& name, const std::string& cases) {
    std::ofstream(folder() / (name + ".toml"))
        << "title = \"T\"\nquestion = \"Q\"\nmost_repeats = 1\ntimeout_s = 0.5\n"
        << "spec = { command = \"bench infer\", model = \"lenet\", input = \"1x32x32\", frontend = \"graph\", batch-size = 1 }\n"
        << "[[grid]]\naxes = { how = [" << cases << "] }\n";
    return Words{"study", "run", in_folder(name + ".toml"), "--out", in_folder(name)};
  };
  EXPECT_EQ(run(with("late", "{ name = \"late\", runs = 1000000 }")).status, 1);
  EXPECT_EQ(runs("late")[0]["status"], "timeout");
  EXPECT_EQ(run(with("gone", "{ name = \"gone\", command = \"train\", dataset = \"cifar10\", data = \"/nowhere\" }")).status, 0);
  EXPECT_EQ(runs("gone")[0]["status"], "missing") << runs("gone")[0];
  EXPECT_NE(runs("gone")[0]["reason"].get<std::string>().find("/nowhere"), std::string::npos);
  expect_refused(with("wrong", "{ name = \"wrong\", warmpu = 1 }"), 2, "study: case wrong: gemel: spec: ");
  expect_refused(with("busy", "{ name = \"busy\", busy-cores = -1 }"), 2, "study: case busy: busy-cores is -1; accepted: a whole number, 0 for none");
  expect_refused(with("two", "{ name = \"two\", frontend = [\"graph\", \"eager\"] }"), 2,
                 "study: case two: frontend is [\"graph\",\"eager\"]; accepted: one value, in the spec or on an axis");
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

TEST_F(StudyCommand, names_options_and_files_that_are_wrong_are_refused) {
  expect_refused({"study", "run", "dumy"}, 2, "study: 'dumy' is unknown, did you mean 'dummy'?; accepted: async, batch-optimizer, ");
  expect_refused({"study", "rnu"}, 2, "study: 'rnu' is unknown; accepted: list, show, run, report, compare");
  expect_refused({"study"}, 2, "study: no part is given; accepted: list, show, run, report, compare");
  expect_refused({"study", "run"}, 2, "study: no name is given; accepted: one that `gemel study list` names, or a file");
  expect_refused({"study", "run", "dummy", "--quick", "--full"}, 2, "study: --quick and --full are given; accepted: one of them");
  expect_refused({"study", "run", "dummy", "--budget", "0"}, 2, "--budget: 0 is given; accepted: minutes above 0");
  expect_refused({"study", "report", in_folder("none")}, 1, "read: cannot open " + in_folder("none/study.json"));
  expect_refused({"study", "run", in_folder("none.toml")}, 1, "read: cannot open " + in_folder("none.toml"));
}

TEST_F(StudyCommand, each_case_of_each_study_is_a_run_that_its_command_takes) {
  int cases = 0;
  for (const auto& file : study::study_files())
    for (const study::Extent extent : {study::Extent::quick, study::Extent::usual, study::Extent::full})
      for (const study::Case& c : study::read_study(file, extent).cases) {
        Words words;
        std::istringstream command(c.spec["command"].get<std::string>());
        for (std::string word; command >> word;) words.push_back(word);
        const Outcome o = run(joined(words, {"--spec", study::spec_of_run(c).dump(), "--print-spec"}));
        EXPECT_EQ(o.status, 0) << file << ": " << c.name << ": " << o.err;
        ++cases;
      }
  EXPECT_GE(cases, 150);
}

TEST_F(StudyCommand, lists_studies_and_what_published_texts_say) {
  const Outcome names = run({"study", "list"}), claims = run({"study", "list", "--claims"});
  EXPECT_EQ(names.status, 0);
  for (const char* name : {"batch-size ", "dataparallel ", "dummy ", "frontends ", "pipeline "}) EXPECT_NE(names.out.find(name), std::string::npos) << name;
  EXPECT_NE(claims.out.find("A static graph trains faster than eager execution. (Dai et al. 2022"), std::string::npos) << claims.out;
  EXPECT_NE(claims.out.find(" not run here\n"), std::string::npos);
  const Outcome shown = run({"study", "show", "batch-size", "--quick"});
  EXPECT_NE(shown.out.find("\nafter: Y. Zhao et al., "), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("18 cases\n  resnet18/batch-size=1/graph\n"), std::string::npos) << shown.out;
}

}  // namespace
}  // namespace gemel::testing
