// The page as one file: all runs, nothing that it would have to fetch, and no more bytes than wanted.
#include "frontends/monitor/export_page.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "frontends/monitor/page_files.h"
#include "tests/support/message_of.h"
#include "tests/support/monitor/records.h"

namespace gemel::monitor {
namespace {

using namespace gemel::testing;

nlohmann::json data_of_page(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const auto at = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
}

TEST(ExportPage, holds_every_run_and_fetches_nothing) {
  const RecordFolder folder;
  folder.append("a", start_line(R"(,"note":"</script><b>")") + step_lines(1, 5));
  folder.append("b", start_line() + step_lines(1, 5000));
  RunIndex index(folder.options());
  index.refresh();
  const ExportedPage page = exported_page(index, 10'000'000);
  EXPECT_EQ(page.left_out, 0u);
  EXPECT_EQ(page.text.find("<script defer"), std::string::npos);
  EXPECT_EQ(page.text.find("<link rel=\"stylesheet\""), std::string::npos);
  EXPECT_NE(page.text.find("Dygraph"), std::string::npos);
  EXPECT_NE(page.text.find("Permission is hereby granted"), std::string::npos) << "the plotting library's licence goes with it";
  const auto data = data_of_page(page.text);
  ASSERT_EQ(data["all"]["runs"].size(), page.runs);
  for (const auto& run : data["all"]["runs"]) {
    const std::string id = run["id"];
    if (run["name"] == "a") {
      EXPECT_EQ(data["data"][id]["about"]["start"]["note"], "</script><b>");
    }
    for (const auto& s : run["series"]) {
      const std::size_t points = data["data"][id]["curves"][std::to_string(s["id"].get<int>())]["x"].size();
      EXPECT_EQ(points, run["name"] == "a" ? 5u : 1251u) << "5 000 steps in cells of four";
    }
  }
}

TEST(ExportPage, has_fewer_points_and_then_fewer_runs_where_there_is_no_room) {
  const RecordFolder folder;
  for (int run = 0; run < 12; ++run) folder.append(fmt::format("r{}", run), start_line() + step_lines(1, 3000));
  RunIndex index(folder.options());
  index.refresh();
  const std::size_t empty = page_with("").size() + (64 << 10);
  const ExportedPage whole = exported_page(index, 10'000'000), coarse = exported_page(index, empty + 500'000), few = exported_page(index, empty + 100'000);
  EXPECT_EQ(whole.points, 2000u);
  EXPECT_LT(coarse.points, 2000u);
  EXPECT_EQ(coarse.left_out, 0u);
  EXPECT_LE(coarse.text.size(), empty + 500'000);
  EXPECT_GT(few.left_out, 0u);
  EXPECT_EQ(few.left_out + few.runs, 12u);
  EXPECT_LE(few.text.size(), empty + 100'000);
  EXPECT_NE(message_of<DataError>([&] { exported_page(index, empty + 100); }).find("no run fits in"), std::string::npos);
}

/// Checks that a run is left out of a page with so many bytes for runs, and an older one that is small is not.
void expect_left_out(const std::string& run, std::size_t room) {
  const RecordFolder folder;
  folder.append("small", start_line() + step_lines(1, 5));
  folder.append("large", run);
  std::filesystem::last_write_time(folder.record("small"), std::filesystem::last_write_time(folder.record("large")) - std::chrono::hours(1));
  RunIndex index(folder.options());
  index.refresh();
  const std::size_t most = page_with("").size() + (64 << 10) + room;
  const ExportedPage page = exported_page(index, most);
  EXPECT_EQ(page.left_out, 1u);
  EXPECT_LE(page.text.size(), most);
  EXPECT_EQ(data_of_page(page.text)["all"]["runs"].at(0)["name"], "small");
}

TEST(ExportPage, leaves_out_a_run_that_is_too_large_alone_and_counts_what_is_written_longer) {
  expect_left_out(start_line(",\"note\":\"" + std::string(50'000, 'x') + "\"") + step_lines(1, 5), 30'000);
  std::string marks = start_line() + step_lines(1, 5);
  for (int i = 0; i < 200; ++i) marks += "{\"event\":\"" + std::string(500, '<') + "\"}\n";
  expect_left_out(marks, 300'000);
}

TEST(ExportPage, of_a_folder_without_runs_is_a_page) {
  const RecordFolder folder;
  RunIndex index(folder.options());
  index.refresh();
  EXPECT_EQ(exported_page(index, 10'000'000).runs, 0u);
}

TEST(ExportPage, is_zoomed_in_a_browser_before_the_key_returns) {
  const RecordFolder folder;
  for (const char* run : {"a", "b", "c"}) folder.append(run, start_line() + step_lines(1, 5000));
  RunIndex index(folder.options());
  index.refresh();
  const auto file = folder.outside() / "page.html";
  write_text(file, exported_page(index, 10'000'000).text);
  const int status = std::system((GEMEL_SOURCE_DIR "/tests/frontends/monitor/check_zoom --runs 3 '" + file.string() + "'").c_str());
  constexpr int kNoBrowser = 77;
  if (WEXITSTATUS(status) == kNoBrowser) GTEST_SKIP() << "there is no Chromium";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace gemel::monitor
