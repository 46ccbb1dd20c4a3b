// gemel study from outside: what is refused, gaps, and the lists of studies and their claims.
#include <fmt/format.h>

#include <fstream>

#include "frontends/study/runner/case_spec.h"
#include "frontends/study/study.h"
#include "tests/support/program/study_fixture.h"

namespace gemel::testing {
namespace {

TEST_F(StudyCommand, cases_that_fail_miss_something_or_take_too_long_are_gaps_with_their_reasons) {
  const auto with = [&](const std::string& name, const std::string& cases) {
    std::ofstream(folder() / (name + ".toml"))
        << "title = \"T\"\nquestion = \"Q\"\nmost_repeats = 1\n"
        << (name == "late" ? "timeout_s = 0.5\n" : "")
        << "spec = { command = \"bench infer\", model = \"lenet\", input = \"1x32x32\", frontend = \"graph\", batch-size = 1 }\n"
        << "[[grid]]\naxes = { how = [" << cases << "] }\n";
    return Words{"study", "run", in_folder(name + ".toml"), "--out", in_folder(name)};
  };
  EXPECT_EQ(run(with("late", "{ name = \"late\", runs = 1000000 }")).status, 1);
  EXPECT_EQ(runs("late")[0]["status"], "timeout");
  EXPECT_EQ(run(with("gone", "{ name = \"gone\", command = \"train\", dataset = \"cifar10\", data = \"/nowhere\" }")).status, 0);
  EXPECT_EQ(runs("gone")[0]["status"], "missing") << runs("gone")[0];
  EXPECT_NE(runs("gone")[0]["reason"].get<std::string>().find("/nowhere"), std::string::npos);
  const std::string lacks = "{ name = \"lacks\", model = \"bert\", input = \"8\", config = \"{data}/bert/config.json\" }";
  run(with("lacks", "{ name = \"has\", runs = 1 }, " + lacks));
  for (const Json& one : runs("lacks")) {
    if (one["case"] != "lacks") continue;
    EXPECT_EQ(one["status"], "missing") << one;
    EXPECT_NE(one["reason"].get<std::string>().find("data/bert/config.json is not there; accepted: --data"), std::string::npos) << one["reason"];
  }
  EXPECT_EQ(runs("lacks").size(), 2u);
  EXPECT_EQ(run(with("nowhere", "{ name = \"nowhere\", device = \"gpuu\" }")).status, 0) << "devices are found when a case runs";
  EXPECT_EQ(runs("nowhere")[0]["status"], "missing") << runs("nowhere")[0];
}

TEST_F(StudyCommand, with_a_wrong_value_or_key_is_refused_with_its_line_before_its_first_case) {
  const std::string file = in_folder("wrong.toml");
  const auto refused = [&](const std::string& lines, const std::string& where, const std::string& why) {
    std::ofstream(folder() / "wrong.toml") << "title = \"T\"\nquestion = \"Q\"\nmost_repeats = 1\n"
                                           << "spec = { command = \"bench infer\", input = \"1x32x32\", frontend = \"graph\", runs = 1 }\n[[grid]]\n"
                                           << "[grid.axes]\nmodel = [\"lenet\"]\n[[grid.axes.how]]\nname = \"a\"\n"
                                           << lines << "\n";
    const Outcome o = run({"study", "run", file, "--out", in_folder("wrong")});
    EXPECT_EQ(o.status, 2) << o.err;
    EXPECT_EQ(o.err.substr(0, o.err.find("; accepted")), "gemel: study: " + file + ":" + where + ": case lenet/a: " + why) << "and nothing before it";
    EXPECT_NE(o.err.find("; accepted: "), std::string::npos) << o.err;
    EXPECT_FALSE(std::filesystem::exists(folder() / "wrong")) << "nothing is left of it";
  };
  refused("model = \"lenett\"", "10", "model: 'lenett' is not accepted, did you mean 'lenet'?");
  refused("warmup = 1\nwarmpu = 1", "11", "key 'warmpu' is unknown, did you mean 'warmup'?");
  refused("command = \"train\"", "4", "key 'runs' is unknown");
  refused("warmup = 1\nruns = \"ten\"", "11", "runs: \"ten\" is not accepted");
  refused("batch-size = 1.5", "10", "batch-size: 1.5 is not accepted");
  refused("command = \"bench train\"\noptimizer = \"adm\"", "11", "optimizer: 'adm' is not accepted, did you mean 'adam'?");
  refused("parallel = \"ddp\"\nnp = \"two\"", "11", "np: \"two\" is not accepted");
  refused("frontend = \"eager\"\nmemory-plan = \"off\"", "11", "memory-plan: off is given with --frontend eager, which plans no memory");
  refused("busy-cores = -1", "10", "busy-cores is -1");
  refused("frontend = [\"graph\", \"eager\"]", "10", "frontend is [\"graph\",\"eager\"]");
  std::ofstream(folder() / "data.toml") << "title = \"T\"\nquestion = \"Q\"\n[[grid]]\nspec = { command = \"train\", model = \"lenet\", dataset = \"cifar\" }\n"
                                        << "axes = { batch-size = [1] }\n";
  expect_refused({"study", "run", in_folder("data.toml"), "--out", in_folder("wrong")}, 2,
                 "study: " + in_folder("data.toml") + ":4: case batch-size=1: dataset: 'cifar' is not accepted, did you mean 'cifar10'?; accepted: ");
}

TEST_F(StudyCommand, names_options_and_files_that_are_wrong_are_refused) {
  expect_refused({"study", "run", "dumy"}, 2, "study: 'dumy' is unknown, did you mean 'dummy'?; accepted: async, batch-optimizer, ");
  expect_refused({"study", "rnu"}, 2, "study: 'rnu' is unknown; accepted: list, show, run, report, compare");
  expect_refused({"study"}, 2, "study: no part is given; accepted: list, show, run, report, compare");
  expect_refused({"study", "run"}, 2, "study: no name is given; accepted: one that `gemel study list` names, or a file");
  expect_refused({"study", "run", "dummy", "--quick", "--full"}, 2, "study: --quick and --full are given; accepted: one of them");
  expect_refused({"study", "run", "dummy", "--budget", "0"}, 2, "--budget: 0 is given; accepted: minutes above 0");
  const std::string accepted = "; accepted: a folder of results of `gemel study run`";
  expect_refused({"study", "report", in_folder("none")}, 1, "study: the folder " + in_folder("none") + " is not there" + accepted);
  expect_refused({"study", "report", folder().string()}, 1, "study: " + folder().string() + " has no study.json" + accepted);
  expect_refused({"study", "report"}, 2, "study: no folder is given; accepted: one with results of `gemel study run`");
  write_text(folder() / "file", "");
  expect_refused({"study", "run", file(), "--out", in_folder("file/r")}, 1,
                 "study: no results can be written in " + in_folder("file/r") + ": Not a directory; accepted: --out with a folder that can be written");
  expect_refused({"study", "run", file(), "--out", in_folder("file")}, 1, "study: no results can be written in " + in_folder("file") + ": Not a directory");
  expect_refused({"study", "run", file(), "--out", "/proc/r"}, 1, "study: no results can be written in /proc/r: ");
  expect_refused({"study", "list", folder().string()}, 2, "study list: the folder " + folder().string() + " is given without --claims; accepted: with it");
  expect_refused({"study", "list", "--claims", in_folder("none")}, 1, "study: the folder " + in_folder("none") + " is not there" + accepted);
  expect_refused({"study", "list", "--claims", folder().string()}, 1, "study list: " + folder().string() + " has no results of a study; accepted: ");
  expect_refused({"study", "run", in_folder("none.toml")}, 1, "read: cannot open " + in_folder("none.toml"));
}

TEST_F(StudyCommand, each_case_of_each_study_is_a_run_that_its_command_takes) {
  int cases = 0;
  for (const auto& file : study::study_files())
    for (const study::Extent extent : {study::Extent::quick, study::Extent::usual, study::Extent::full})
      for (const study::Case& c : study::read_study(file, extent).cases) {
        const Json spec = study::spec_of_run(c);
        const Outcome o = run(joined(study::run_words(spec, spec.dump()), {"--print-spec"}));
        EXPECT_EQ(o.status, 0) << file << ": " << c.name << ": " << o.err;
        ++cases;
      }
  EXPECT_GE(cases, 150);
}

TEST_F(StudyCommand, lists_what_results_in_any_folder_say_of_the_claims) {
  const auto results = [&](const std::string& out, const std::string& name, const std::string& hypothesis, const std::string& holds) {
    std::filesystem::create_directories(folder() / out);
    write_text(folder() / out / "study.json", Json{{"name", name}}.dump());
    if (!hypothesis.empty())
      write_text(folder() / out / "results.json", Json{{"tests", {{{"name", hypothesis}, {"claim_holds", holds}, {"verdict", "differs"}}}}}.dump());
  };
  const study::Study dummy = study::read_study(study::find_study("dummy"), study::Extent::usual);
  ASSERT_FALSE(dummy.hypotheses.empty());
  const study::Hypothesis& first = dummy.hypotheses[0];
  results("all/dummy-study", "dummy", first.name, "it holds");
  results("all/other", "dummy", first.name, "it does not hold");
  results("alone", "dummy", "", "");
  const auto line_of = [&](const Words& folders, bool here = false) {
    const Outcome o = run(joined({"study", "list", "--claims"}, folders), [&] {
      if (here) std::filesystem::current_path(folder() / "all");
    });
    EXPECT_EQ(o.status, 0) << o.err;
    for (const std::string& line : lines_of(o.out))
      if (line.starts_with("dummy ") && line.find(first.claim) != line.npos) return line.substr(line.find(first.source) + first.source.size() + 2);
    return std::string("no line of it");
  };
  EXPECT_EQ(line_of({in_folder("all")}),
            "here: it holds, differs (" + in_folder("all/dummy-study") + "); it does not hold, differs (" + in_folder("all/other") + ")");
  EXPECT_EQ(line_of({in_folder("all/other")}), "here: it does not hold, differs (" + in_folder("all/other") + ")");
  EXPECT_EQ(line_of({}, true), "here: it holds, differs (dummy-study); it does not hold, differs (other)");
  EXPECT_EQ(line_of({in_folder("alone")}), "here: no report yet (" + in_folder("alone") + ")");

  ASSERT_EQ(run({"study", "run", file(1), "--out", in_folder("own")}).status, 0);
  const Outcome own = run({"study", "list", "--claims", in_folder("own"), in_folder("all")});
  EXPECT_NE(own.out.find("Graphs are faster. (nobody) here: open, nothing is decided, undecided (" + in_folder("own") + ")\n"), std::string::npos) << own.out;
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
