// Two made-up folders of results side by side, of which it is known which cases differ.
#include "frontends/study/report/comparison.h"

#include <gtest/gtest.h>

#include <fstream>

#include "engine/base/error.h"
#include "frontends/study/run_record.h"
#include "frontends/study/study_record.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::study {
namespace {

constexpr const char* kCompared = R"(title = "T"
question = "Q?"
spec = { command = "bench train" }
[[grid]]
axes = { model = ["slower", "alike", "gone"] }
)";

/// Seven values or more around a median, in another order for each folder.
std::vector<double> around(double middle, int processes, int turn) {
  std::vector<double> out;
  for (int i = 0; i < processes; ++i) out.push_back(middle * (1 + 0.01 * ((i * 3 + turn) % processes - processes / 2)));
  return out;
}

void write_results(const std::filesystem::path& folder, const std::map<std::string, std::vector<double>>& values, const std::string& processor) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / kStudyRecord) << Json{{"name", "s"}, {"study", kCompared}, {"extent", 1}, {"machine", {{"processor", processor}}}};
  std::ofstream lines(folder / "runs.jsonl");
  std::int64_t order = 0;
  for (const auto& [name, all] : values)
    for (std::size_t i = 0; i < all.size(); ++i)
      lines << json_of(ProcessRecord{.order = ++order,
                                     .name = name,
                                     .repeat = static_cast<int>(i),
                                     .status = "ok",
                                     .metrics = {{"ms", all[i]}},
                                     .machine = {{"device", {{"driver", "3.1"}, {"compute_units", i % 2 + 1}}}},
                                     .started = "2026-01-02T03:04:05Z"})
            << "\n";
}

TEST(StudyComparison, finds_the_case_that_differs_with_its_ratio_and_an_adjusted_p) {
  const testing::TemporaryFolder folder;
  write_results(folder.path() / "a", {{"slower", around(20, 7, 0)}, {"alike", around(5, 8, 1)}, {"gone", around(1, 3, 0)}}, "new");
  write_results(folder.path() / "b", {{"slower", around(10, 8, 0)}, {"alike", around(5, 8, 4)}, {"gone", around(1, 8, 0)}}, "old");
  const Page page = comparison(folder.path() / "a", folder.path() / "b");
  const Grid& grid = std::get<Grid>(page.blocks[1]);
  EXPECT_NE(grid.caption.find("adjusted by Holm over 2 cases"), std::string::npos) << grid.caption;
  ASSERT_EQ(grid.rows.size(), 3u);
  const auto& slower = grid.rows[0];
  EXPECT_EQ(slower[0], "slower");
  EXPECT_EQ(slower[3], "2.010") << "medians of 20 and of 9.95";
  const auto space = slower[4].find(" to ");
  EXPECT_GT(std::stod(slower[4]), 1.9);
  EXPECT_LT(std::stod(slower[4].substr(space + 4)), 2.1);
  // All of one are above all of the other: 2 of the 6435 splits into 7 and 8 lie as far out; twice that for two cases.
  EXPECT_NEAR(std::stod(slower[5]), 2 * 2 / 6435.0, 1e-5);
  EXPECT_EQ(slower[6], "1.00");
  EXPECT_EQ(slower[7], "differs");
  const auto& alike = grid.rows[1];
  EXPECT_EQ(alike[3], "1.000");
  EXPECT_GT(std::stod(alike[5]), 0.5);
  EXPECT_EQ(alike[6], "0.00") << "Cliff's delta of equal samples";
  EXPECT_EQ(alike[7], "undecided");
  EXPECT_EQ(grid.rows[2][7], "too few processes");
  EXPECT_EQ(grid.rows[2][5], "");
}

TEST(StudyComparison, shows_both_machines_and_refuses_folders_without_a_case_in_common) {
  const testing::TemporaryFolder folder;
  write_results(folder.path() / "a", {{"slower", {1, 2}}}, "new");
  write_results(folder.path() / "b", {{"slower", {1, 2}}}, "old");
  const std::string text = markdown(comparison(folder.path() / "a", folder.path() / "b"));
  for (const char* row :
       {"| processor | new |", "| processor | old |", "| gemel, device | driver 3.1, compute_units 1 or 2 |", "| date (UTC) | 2026-01-02T03:04:05Z |"})
    EXPECT_NE(text.find(row), std::string::npos) << row << "\n" << text;
  std::string other = kCompared;
  other.replace(other.find("[\"slower\", \"alike\", \"gone\"]"), 27, "[\"another\"]");
  std::ofstream(folder.path() / "b" / kStudyRecord) << Json{{"name", "s"}, {"study", other}, {"extent", 1}};
  EXPECT_NE(testing::message_of<UsageError>([&] { comparison(folder.path() / "a", folder.path() / "b"); }).find("share no case"), std::string::npos);
}

}  // namespace
}  // namespace gemel::study
