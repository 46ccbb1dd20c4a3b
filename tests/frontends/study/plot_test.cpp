// Plots: what an axis has no place for, and which points are joined.
#include <gtest/gtest.h>

#include <limits>

#include "engine/base/error.h"
#include "frontends/study/report/plot_lines.h"
#include "frontends/study/report/report.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::study {
namespace {

Line line_of(const std::vector<std::pair<double, double>>& points) {
  Line out{.name = "a", .points = {}, .bound = {}};
  for (const auto& [x, y] : points) out.points.push_back({x, y, {0.9 * y, 1.1 * y}});
  return out;
}
int count(const std::string& text, const std::string& what) {
  int out = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++out;
  return out;
}
constexpr const char* kPath = "fill='none' stroke='#1b4f8a' stroke-width='1.6'";  // of the first line

TEST(Plot, leaves_out_what_a_logarithmic_axis_has_no_place_for) {
  const Line line = line_of({{0, 1}, {1, 0}, {2, 3}, {4, 5}});
  const Drawing both = plot_svg({line}, {"cores", true}, {"ms", true});
  EXPECT_EQ(both.left_out, 2u);
  EXPECT_EQ(count(both.svg, "<circle"), 3) << "two points, and one in the legend";
  EXPECT_EQ(plot_svg({line}, {"cores", true}, {"ms", false}).left_out, 1u);
  EXPECT_EQ(plot_svg({line}, {"cores", false}, {"ms", false}).left_out, 0u);
  const Drawing none = plot_svg({line_of({{1, 0}, {2, 0}})}, {"cores", true}, {"exposed_comm_ms", true});
  EXPECT_EQ(none.svg, "");
  EXPECT_EQ(none.left_out, 2u);
  EXPECT_EQ(plot_svg({line_of({{1, std::numeric_limits<double>::infinity()}, {2, 1}})}, {"x", false}, {"y", false}).left_out, 1u);
}

TEST(Plot, draws_intervals_that_reach_0_to_the_end_of_a_logarithmic_axis) {
  Line line = line_of({{1, 2}, {2, 3}});
  line.points[0].interval.low = 0;
  line.bound = {{1, 0, {}}, {2, 1, {1, 1}}};
  const Drawing drawn = plot_svg({line}, {"x", true}, {"y", true});
  EXPECT_EQ(drawn.left_out, 0u);
  for (const char* wrong : {"inf", "nan"}) EXPECT_EQ(drawn.svg.find(wrong), std::string::npos) << wrong;
}

TEST(Plot, joins_points_along_a_factor_alone) {
  Line line = line_of({{1, 2}, {2, 3}, {4, 4}});
  EXPECT_EQ(count(plot_svg({line}, {"x", false}, {"y", false}).svg, kPath), 1);
  line.is_joined = false;
  line.bound = {{1, 1, {1, 1}}, {2, 1, {1, 1}}};
  const std::string alone = plot_svg({line}, {"x", false}, {"y", false}).svg;
  EXPECT_EQ(count(alone, kPath), 0);
  EXPECT_EQ(count(alone, "h18"), 2) << "a dash for each bound";
}

constexpr const char* kPlotted = R"(
title = "T"
question = "Q?"
spec = { command = "bench train" }
[[grid]]
axes = { model = ["lenet", "alexnet"], cores = [1, 2] }
[[plot]]
name = "by-cores"
caption = "Times."
metric = "exposed_comm_ms"
x = "cores"
log_x = true
log_y = true
[[plot]]
name = "by-operations"
caption = "Times."
x = "flops"
)";

TEST(Plot, over_a_metric_has_points_alone_and_a_remark_says_what_is_left_out) {
  const Study s = parse_study(kPlotted, "s.toml", Extent::usual);
  std::vector<ProcessRecord> runs;
  for (const Case& c : s.cases) {
    const double cores = c.factors["cores"];
    runs.push_back(
        ProcessRecord{.name = c.name, .status = "ok", .metrics = {{"ms", 3 / cores}, {"flops", 2e9 * cores}, {"exposed_comm_ms", cores - 1}}, .spec = c.spec});
  }
  const Results results(s, runs);
  EXPECT_TRUE(lines_of(s.plots[0], s, results)[0].is_joined);
  EXPECT_FALSE(lines_of(s.plots[1], s, results)[0].is_joined);
  const testing::TemporaryFolder folder;
  write_report(s, results, folder.path());
  const std::string report = testing::read_text(folder.path() / "report.md");
  const std::string plot = testing::read_text(folder.path() / "plots/by-operations.svg");
  EXPECT_NE(plot.find(">flops in GFLOP</text>"), std::string::npos) << plot;
  EXPECT_NE(plot.find(">4</text>"), std::string::npos) << plot;
  EXPECT_NE(report.find("Left out: 2 points of 0 or less, for which a logarithmic axis has no place."), std::string::npos) << report;
}

TEST(Plot, of_a_factor_that_has_no_logarithm_is_refused) {
  std::string text = kPlotted;
  text.replace(text.find("[1, 2]"), 6, "[0, 1, 2]");
  EXPECT_EQ(testing::message_of<UsageError>([&] { parse_study(text, "s.toml", Extent::usual); }),
            "study: s.toml:7: log_x: 'cores' has the value 0; accepted: an axis of numbers above 0");
}

}  // namespace
}  // namespace gemel::study
