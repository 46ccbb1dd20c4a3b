// Verdicts on made-up runs whose answer is known, and the pages that show them.
#include "frontends/study/report/results.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "frontends/study/report/plot_lines.h"
#include "frontends/study/report/report.h"
#include "frontends/study/report/table_grid.h"
#include "tests/support/temporary_folder.h"

namespace gemel::study {
namespace {

constexpr const char* kStudy = R"(
title = "Fronts <a>"
question = "Which is faster?"
spec = { command = "bench train" }
[[grid]]
axes = { model = ["lenet", "alexnet"], frontend = ["eager", "graph"], batch-size = [1, 2, 4] }
[[table]]
name = "times"
caption = "Times"
rows = ["model", "frontend"]
columns = "batch-size"
base = { batch-size = 1 }
[[plot]]
name = "times"
caption = "Times."
x = "batch-size"
lines = ["model", "frontend"]
[[hypothesis]]
name = "graph"
claim = "Graphs are faster."
source = "somebody"
a = { frontend = "graph" }
b = { frontend = "eager" }
expected = "below 1"
[[hypothesis]]
name = "grows"
claim = "Time grows with the batch."
source = "somebody"
method = "trend"
over = "batch-size"
expected = "rises"
[[hypothesis]]
name = "matters"
claim = "It matters."
source = "somebody"
method = "variance"
over = "batch-size"
expected = "matters"
)";

/// Runs of all cases: time grows with the square root of the batch, a graph takes `graph` of eager's, each process deviates by about a percent.
std::vector<ProcessRecord> runs(const Study& study, int blocks, double graph) {
  std::vector<ProcessRecord> out;
  std::uint64_t state = 5;
  const auto noise = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return 0.02 * (static_cast<double>(state >> 11) / 9007199254740992.0 - 0.5);
  };
  for (int block = 0; block < blocks; ++block)
    for (const Case& c : study.cases) {
      const double ms = 10 * std::sqrt(c.factors["batch-size"].get<double>()) * (c.factors["frontend"] == "graph" ? graph : 1) * (1 + noise());
      out.push_back(ProcessRecord{
          .order = std::ssize(out) + 1, .name = c.name, .repeat = block, .status = "ok", .metrics = {{"ms", ms}, {"process_seconds", 1}}, .spec = c.spec});
    }
  return out;
}

Study study() { return parse_study(kStudy, "fronts.toml", Extent::usual); }

TEST(StudyResults, a_difference_that_is_there_is_found_and_one_that_is_not_is_bounded) {
  const Study s = study();
  const auto faster = Results(s, runs(s, 8, 0.9)).verdicts();
  EXPECT_EQ(faster[0].verdict, "differs");
  EXPECT_EQ(faster[0].claim_holds, "it holds");
  EXPECT_NEAR(*faster[0].effect, 0.9, 0.01);
  EXPECT_LT(faster[0].interval->high, 0.92);
  EXPECT_GT(faster[0].interval->low, 0.88);
  EXPECT_NEAR(*faster[0].p, 2 / 256.0, 1e-12) << "all of 8 signs alike";
  EXPECT_GE(*faster[0].p_adjusted, *faster[0].p);
  for (int i : {1, 2}) {
    EXPECT_EQ(faster[i].verdict, "differs") << i;
    EXPECT_EQ(faster[i].claim_holds, "it holds") << i;
    EXPECT_NEAR(*faster[i].effect, 2, 0.05) << "the last level over the first";
  }
  EXPECT_EQ(Results(s, runs(s, 8, 1.1)).verdicts()[0].claim_holds, "it does not hold");
  EXPECT_EQ(Results(s, runs(s, 8, 0.98)).verdicts()[0].verdict, "equal within 5 %") << "certainly less, and nearer than anybody cares for";
  const auto equal = Results(s, runs(s, 8, 1)).verdicts()[0];
  EXPECT_EQ(equal.verdict, "equal within 5 %");
  EXPECT_EQ(equal.claim_holds, "it does not hold");
  EXPECT_LT(*equal.could_have_seen, 0.02);
  EXPECT_NE(equal.sentence.find("Sign flips see a difference of "), std::string::npos) << equal.sentence;
  EXPECT_FALSE(faster[1].could_have_seen) << "a trend's test is another";
  EXPECT_NE(faster[2].method.find(" % of the variance of processes (eta squared)"), std::string::npos) << faster[2].method;
}

TEST(StudyResults, below_six_processes_there_is_a_range_and_no_p) {
  const Study s = study();
  const Results results(s, runs(s, 5, 0.5));
  EXPECT_NEAR(*results.verdicts()[0].effect, 0.5, 0.01);
  for (const Verdict& v : results.verdicts()) {
    EXPECT_FALSE(v.p) << v.name;
    EXPECT_EQ(v.verdict, "undecided") << v.name;
  }
  const Estimate e = results.estimate(s.cases[0], "ms");
  EXPECT_TRUE(e.is_range);
  EXPECT_EQ(e.n, 5);
  const Json json = results.json();
  EXPECT_TRUE(json["tests"][0]["p"].is_null());
  EXPECT_TRUE(json["tables"][0]["rows"][0].contains("range"));
  EXPECT_FALSE(json["tables"][0]["rows"][0].contains("interval"));
}

TEST(StudyResults, gaps_have_their_reasons_and_only_failures_make_a_study_fail) {
  const Study s = study();
  std::vector<ProcessRecord> all = runs(s, 7, 0.9);
  const std::string gone = s.cases[0].name;
  std::erase_if(all, [&](const ProcessRecord& run) { return run.name == gone; });
  all.push_back(ProcessRecord{.name = gone, .status = "does-not-fit", .reason = "8 bytes are needed"});
  const Results fits_not(s, all);
  EXPECT_TRUE(fits_not.is_whole());
  EXPECT_EQ(fits_not.estimate(s.cases[0], "ms").gap, "does-not-fit");
  EXPECT_EQ(fits_not.estimate(s.cases[0], "ms").reason, "8 bytes are needed");
  EXPECT_EQ(fits_not.verdicts()[0].verdict, "differs") << "over the pairs that are there";
  EXPECT_NE(fits_not.verdicts()[0].method.find("of 5 pairs"), std::string::npos) << fits_not.verdicts()[0].method;
  all.back().status = "timeout";
  EXPECT_FALSE(Results(s, all).is_whole());
}

TEST(StudyResults, a_pilot_of_another_scale_does_not_count_but_its_gaps_do) {
  Study s = study();
  s.scale = 0.5;
  std::vector<ProcessRecord> all = runs(s, 7, 0.9);
  for (ProcessRecord& run : all) run.scale = run.repeat == 0 ? 0.2 : 0.5;
  for (ProcessRecord& run : all)
    if (run.repeat == 0) run.metrics["ms"] = 1e6;
  const Case& gone = s.cases[2];
  std::erase_if(all, [&](const ProcessRecord& run) { return run.name == gone.name; });
  all.push_back(ProcessRecord{.name = gone.name, .status = "does-not-fit", .reason = "8 bytes are needed", .scale = 0.2});
  const Results results(s, all);
  EXPECT_EQ(results.estimate(s.cases[0], "ms").n, 6);
  EXPECT_LT(results.estimate(s.cases[0], "ms").interval.high, 1e3);
  EXPECT_EQ(results.estimate(gone, "ms").gap, "does-not-fit");
}

TEST(StudyResults, are_read_in_the_unit_of_their_metric) {
  const DisplayUnit bytes = display_unit("peak_bytes");
  EXPECT_EQ(bytes.label, "peak_bytes in MiB");
  EXPECT_EQ(display_unit("ms").label, "ms");
  EXPECT_EQ(display_unit("flops_per_second").label, "flops_per_second in GFLOP/s");
  const double mib = 1 << 20;
  EXPECT_EQ(text_of({.n = 7, .median = 3 * mib, .interval = {2 * mib, 4 * mib}}, bytes.size), "3 (2 to 4)");
  EXPECT_EQ(text_of({.n = 7, .median = 3 * mib, .interval = {3 * mib, 3 * mib}}, bytes.size), "3");
  EXPECT_EQ(text_of({.n = 4, .median = 3 * mib, .interval = {3 * mib, 3 * mib}, .is_range = true}, bytes.size), "3 (all 4)");
  EXPECT_EQ(text_of({.n = 4, .median = 3, .interval = {2, 4}, .is_range = true}), "3 (2 to 4, all 4)");
  EXPECT_EQ(text_of({.n = 1, .median = 3, .interval = {3, 3}, .is_range = true}), "3 (one process)");
}

TEST(StudyResults, a_ratio_is_taken_in_each_block_and_a_speed_up_is_its_inverse) {
  Study s = study();
  std::vector<ProcessRecord> all = runs(s, 8, 0.5);
  for (ProcessRecord& run : all) run.metrics["ms"] = run.metrics["ms"].get<double>() * (1 + run.repeat);  // a machine that grows slower
  const Results results(s, all);
  const Case &eager = s.cases[0], &graph = s.cases[3];
  ASSERT_EQ(graph.factor("frontend"), "graph");
  const Estimate ratio = results.ratio(graph, eager, "ms");
  EXPECT_EQ(ratio.n, 8);
  EXPECT_NEAR(ratio.median, 0.5, 0.01);
  EXPECT_LT(ratio.interval.high - ratio.interval.low, 0.02);
  s.tables[0] = {.name = "t",
                 .caption = "T",
                 .metric = "ms",
                 .rows = {"model", "batch-size"},
                 .columns = "frontend",
                 .base = {{"frontend", "eager"}},
                 .is_speed_up = true};
  const Grid grid = grid_of(s.tables[0], s, results);
  EXPECT_EQ(grid.head.back(), "speed-up of graph");
  EXPECT_TRUE(grid.rows[0].back().starts_with("1.99") || grid.rows[0].back().starts_with("2.0")) << grid.rows[0].back();
  EXPECT_EQ(grid.rows[0][grid.rows[0].size() - 2], "") << "the base itself";
}

TEST(StudyResults, a_curve_has_the_median_of_each_epoch_over_the_processes) {
  Study s = study();
  std::vector<ProcessRecord> all = runs(s, 7, 1);
  for (ProcessRecord& run : all)
    if (run.name == s.cases[0].name)
      for (int epoch : {1, 2})
        run.epochs.push_back({{"epoch", epoch}, {"seconds", 10.0 * epoch + run.repeat}, {"val_accuracy", 0.5 * epoch - 0.01 * run.repeat}});
  const auto lines = lines_of(Curve{.x = "seconds", .y = "val_accuracy", .lines = {"model", "frontend"}}, s, Results(s, all));
  ASSERT_EQ(lines.size(), 1u) << "the others told nothing";
  EXPECT_EQ(lines[0].name, "lenet, eager");
  ASSERT_EQ(lines[0].points.size(), 2u);
  EXPECT_DOUBLE_EQ(lines[0].points[1].x, 23);
  EXPECT_DOUBLE_EQ(lines[0].points[1].y, 0.97);
  EXPECT_LT(lines[0].points[1].interval.low, 0.97);
}

std::string text(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

TEST(StudyResults, a_knee_has_a_row_for_each_line_and_its_gap_names_the_case) {
  const std::string text = std::string(kStudy) + "[[knee]]\nname = \"knee\"\ncaption = \"Knee\"\nover = \"batch-size\"\nlines = [\"model\", \"frontend\"]\n";
  const Study s = parse_study(text, "fronts.toml", Extent::usual);
  std::vector<ProcessRecord> all = runs(s, 7, 0.9);
  // Eager: falls by a third, then by 2 %. Graph: still falls at the end.
  for (ProcessRecord& run : all) {
    const double batch = run.spec["batch-size"],
                 falling = run.spec["frontend"] == "graph" ? 10 / batch : std::vector<double>{10, 6, 6, 5.9}[std::size_t(batch) - 1];
    run.metrics["ms"] = falling * (1 + 0.001 * run.repeat);
  }
  std::erase_if(all, [](const ProcessRecord& run) { return run.name == "alexnet/eager/batch-size=2"; });
  const Json json = Results(s, all).json()["knees"][0];
  EXPECT_EQ(json["lines"][0], Json::parse(R"({"model": "lenet", "frontend": "eager", "n": 7, "largest": 4.0, "knee": 2.0, "interval": [2.0, 2.0]})"));
  EXPECT_EQ(json["lines"][1], Json::parse(R"({"model": "lenet", "frontend": "graph", "n": 7, "largest": 4.0, "knee": null, "interval": [null, null]})"));
  EXPECT_EQ(json["lines"][2], Json::parse(R"({"model": "alexnet", "frontend": "eager", "n": 0, "gap": "alexnet/eager/batch-size=2: not run"})"));
  const testing::TemporaryFolder folder;
  write_report(s, Results(s, all), folder.path());
  std::ifstream in(folder.path() / "report.md");
  const std::string report{std::istreambuf_iterator<char>(in), {}};
  EXPECT_NE(report.find("| lenet | eager | 2 (no other) |\n| lenet | graph | above 4 (no other) |\n"), std::string::npos) << report;
  EXPECT_NE(report.find("- Knee, by batch-size: lenet, eager: 2 (no other); lenet, graph: above 4 (no other); "), std::string::npos) << report;
}

TEST(StudyResults, a_correlation_is_over_cases_and_needs_six) {
  const std::string text = std::string(kStudy) +
                           "[[hypothesis]]\nname = \"operations\"\nclaim = \"C.\"\nsource = \"s\"\nmethod = \"correlation\"\nwith = \"flops\"\nexpected = "
                           "\"rises\"\n";
  const Study s = parse_study(text, "fronts.toml", Extent::usual);
  std::vector<ProcessRecord> all = runs(s, 2, 0.9);
  for (ProcessRecord& run : all) run.metrics["flops"] = std::pow(run.metrics["ms"].get<double>(), 2);
  const Verdict found = Results(s, all).verdicts().back();
  EXPECT_EQ(found.n, 12) << "cases, each with two processes";
  EXPECT_EQ(found.verdict, "correlates");
  EXPECT_EQ(found.claim_holds, "it holds");
  EXPECT_NEAR(*found.effect, 1, 1e-3);
  EXPECT_NEAR(*found.statistic, 0.5, 0.01) << "time grows as the root of the operations";
  EXPECT_NE(found.sentence.find("ms grows as flops to the power of 0.50: correlates."), std::string::npos) << found.sentence;
  for (ProcessRecord& run : all)
    if (run.name.starts_with("alexnet") || run.name.ends_with("4")) run.metrics.erase("flops");
  const Verdict few = Results(s, all).verdicts().back();
  EXPECT_FALSE(few.p);
  EXPECT_EQ(few.sentence, "4 cases have both ms and flops, fewer than 6: no test, so nothing is decided.");
  EXPECT_EQ(few.claim_holds, "open, nothing is decided");
}

TEST(StudyReport, is_one_page_without_references_and_has_every_number_as_csv) {
  const testing::TemporaryFolder folder;
  const Study s = study();
  write_report(s, Results(s, runs(s, 7, 0.9)), folder.path());
  const std::string html = text(folder.path() / "report.html"), markdown = text(folder.path() / "report.md"), csv = text(folder.path() / "tables/times.csv");
  EXPECT_NE(html.find("<h1>Fronts &lt;a&gt;</h1>"), std::string::npos);
  EXPECT_EQ(html.find("http://www.w3.org/2000/svg", html.find("http://www.w3.org/2000/svg") + 1), std::string::npos) << "one plot, and no other address";
  for (const char* reference : {"https://", "src=", "@import"}) EXPECT_EQ(html.find(reference), std::string::npos) << reference;
  EXPECT_NE(markdown.find("# Fronts <a>\n"), std::string::npos);
  EXPECT_NE(
      markdown.find("| model | frontend | batch-size 1 | batch-size 2 | batch-size 4 | batch-size 1 / base | batch-size 2 / base | batch-size 4 / base |"),
      std::string::npos)
      << markdown;
  EXPECT_NE(markdown.find("- Graphs are faster. Here it holds: the time of a step (ms) of frontend graph is 0."), std::string::npos) << markdown;
  EXPECT_NE(markdown.find("- From the least to the largest time of a step (ms): lenet: "), std::string::npos) << markdown;
  EXPECT_EQ(std::ranges::count(csv, '\n'), 13) << csv;
  EXPECT_TRUE(csv.starts_with("model,frontend,batch-size,metric,n,median,low,high,of,gap\nlenet,eager,1,ms,7,")) << csv;
  EXPECT_EQ(Json::parse(text(folder.path() / "results.json"))["tests"].size(), 3u);
  EXPECT_TRUE(text(folder.path() / "plots/times.svg").starts_with("<svg "));
}

TEST(StudyReport, draws_the_device_s_bound_where_the_plot_has_one_and_the_peak_is_known) {
  const testing::TemporaryFolder folder;
  std::string with_bound = kStudy;
  with_bound.insert(with_bound.find("x = \"batch-size\""), "bound = true\n");
  const Study s = parse_study(with_bound, "fronts.toml", Extent::usual);
  std::vector<ProcessRecord> all = runs(s, 6, 0.9);
  for (ProcessRecord& run : all) {
    const double batch = run.spec["batch-size"];
    run.metrics.update({{"flops", 1e6 * batch}, {"parameters", 1000}, {"batch_size", batch}});
  }
  write_report(s, Results(s, all), folder.path());
  EXPECT_EQ(text(folder.path() / "plots/times.svg").find("bound of the device"), std::string::npos) << "nobody measured the peak";
  std::ofstream(folder.path() / "device.json") << R"({"flops_per_second": 1e9, "read_bytes_per_second": 2.5e6})";
  write_report(s, Results(s, all), folder.path());
  EXPECT_NE(text(folder.path() / "plots/times.svg").find("bound of the device</text>"), std::string::npos);
  EXPECT_NE(text(folder.path() / "report.md").find("at its peak of 1 GFLOP/s, or reading each parameter once at 0.0025 GB/s"), std::string::npos);
  // 1.6 ms to read 4000 bytes; 1, 2 and 4 ms to compute.
  EXPECT_EQ(text(folder.path() / "plots/times-bound.csv").substr(0, 91),
            "line,batch-size,ms at the bound\n\"lenet, eager\",1,1.6\n\"lenet, eager\",2,2\n\"lenet, eager\",4,4\n");
  std::ofstream(folder.path() / "device.json") << "{}";
  write_report(s, Results(s, all), folder.path());
  EXPECT_EQ(text(folder.path() / "plots/times.svg").find("bound of the device"), std::string::npos);
}

TEST(StudyReport, looks_well_in_a_browser) {
  const testing::TemporaryFolder folder;
  const Study s = study();
  write_report(s, Results(s, runs(s, 6, 0.9)), folder.path());
  const std::string command = GEMEL_SOURCE_DIR "/tests/frontends/study/check_pages '" + (folder.path() / "report.html").string() + "'";
  const int status = std::system(command.c_str());
  constexpr int kNoBrowser = 77;
  if (WEXITSTATUS(status) == kNoBrowser) GTEST_SKIP() << "there is no Chromium";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace gemel::study
