// The index: what a second look reads again, what a damaged cache costs, and that nothing outside the folder is seen.
#include "frontends/monitor/run_index.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "frontends/monitor/export_page.h"
#include "tests/support/device/test_device.h"
#include "tests/support/monitor/records.h"

namespace gemel::monitor {
namespace {

namespace fs = std::filesystem;
using namespace gemel::testing;

std::vector<fs::path> cached(const RecordFolder& folder) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(folder.cache())) out.push_back(entry.path());
  return out;
}

TEST(RunIndex, a_run_that_grows_is_followed) {
  const RecordFolder folder;
  folder.append("a/b", start_line() + step_lines(1, 3));
  RunIndex index(folder.options());
  index.refresh();
  EXPECT_EQ(curve_named(index, "a/b", "loss").cells.size(), 3u);
  const auto before = index.version();
  folder.append("a/b", step_lines(4, 5) + end_line("ok"));
  index.refresh();
  EXPECT_GT(index.version(), before);
  EXPECT_EQ(curve_named(index, "a/b", "loss").cells.back().mean, 5);
  EXPECT_EQ(run_named(index, "a/b")["status"], "ok");
  const auto news = index.runs(index.version());
  EXPECT_TRUE(news["runs"].empty());
  EXPECT_FALSE(news.contains("ids"));
}

TEST(RunIndex, a_page_that_is_open_while_the_monitor_starts_again_hears_of_what_there_is_and_what_has_gone) {
  const RecordFolder folder;
  for (const char* run : {"a", "b"}) folder.append(run, start_line() + step_lines(1, 3));
  std::uint64_t seen = 0;
  const auto begin = [&] {
    auto index = std::make_unique<RunIndex>(folder.options());
    EXPECT_FALSE(index->runs(seen).contains("ids")) << "before the first look nothing is known to have gone";
    index->refresh();
    return index;
  };
  seen = begin()->version();
  for (const char* gone : {"b", "a"}) {
    fs::remove_all(folder.runs() / gone);
    const auto news = begin()->runs(seen);
    EXPECT_EQ(news["runs"].size(), gone[0] == 'b' ? 1u : 0u);
    EXPECT_EQ(news.at("ids").size(), news["runs"].size());
  }
}

TEST(RunIndex, a_second_program_reads_nothing_again_that_is_in_the_cache) {
  const RecordFolder folder;
  folder.append("a", start_line() + step_lines(1, 5000) + usage_line(3, 1.25, 0.5));
  {
    RunIndex index(folder.options());
    index.refresh();
    EXPECT_GT(index.progress().bytes, 100000u);
    index.save();
  }
  RunIndex index(folder.options());
  index.refresh();
  EXPECT_EQ(index.progress().bytes, 0u);
  EXPECT_EQ(curve_named(index, "a", "loss").cells.size(), 1251u);  // 5 000 in cells of four
  EXPECT_EQ(curve_named(index, "a", "cpu", 3).cells[0].mean, 0.5f);
  folder.append("a", step_line(5001, 7));
  index.refresh();
  EXPECT_LT(index.progress().bytes, 100u);
  EXPECT_EQ(run_named(index, "a")["series"][0]["value"], 7);
  for (const auto& entry : fs::recursive_directory_iterator(folder.runs())) EXPECT_TRUE(entry.is_directory() || entry.path().filename() == "run.jsonl");
}

TEST(RunIndex, a_cache_that_is_damaged_anywhere_costs_a_reading_and_nothing_else) {
  const RecordFolder folder;
  folder.append("a", start_line() + step_lines(1, 300));
  {
    RunIndex index(folder.options());
    index.refresh();
  }
  ASSERT_EQ(cached(folder).size(), 1u);
  const fs::path file = cached(folder)[0];
  const std::string whole = read_text(file);
  std::vector<std::string> damaged{"", whole.substr(0, 10), whole.substr(0, whole.size() / 2), whole.substr(0, whole.size() - 1)};
  for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 60) {
    damaged.push_back(whole);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 0x41);
  }
  for (const std::string& text : damaged) {
    write_text(file, text);
    RunIndex index(folder.options());
    index.refresh();
    try {
      curve_named(index, "a", "loss");
    } catch (const std::bad_optional_access&) {  // its rows: seen now
    }
    index.refresh();
    const Curve curve = curve_named(index, "a", "loss");
    ASSERT_EQ(curve.cells.size(), 300u);
    for (std::size_t i = 0; i < 300; ++i) ASSERT_EQ(curve.cells[i].mean, static_cast<float>(i + 1));
  }
}

TEST(RunIndex, without_a_cache_everything_stays_in_memory) {
  const RecordFolder folder;
  folder.append("a", start_line() + step_lines(1, 30));
  auto options = folder.options();
  options.cache.reset();
  RunIndex index(options);
  index.refresh();
  EXPECT_EQ(curve_named(index, "a", "loss").cells.size(), 30u);
  folder.append("a", step_lines(31, 40));
  index.refresh();
  EXPECT_EQ(curve_named(index, "a", "loss").cells.size(), 40u);
  EXPECT_FALSE(fs::exists(folder.cache()));
}

TEST(RunIndex, where_the_cache_cannot_be_made_it_says_so_once_and_everything_stays_in_memory) {
  const RecordFolder folder;
  folder.append("a", start_line() + step_lines(1, 30));
  write_text(folder.cache(), "a file");
  std::vector<std::string> said;
  auto options = folder.options();
  options.warn = [&](const std::string& line) { said.push_back(line); };
  RunIndex index(options);
  index.refresh();
  index.save();
  EXPECT_EQ(curve_named(index, "a", "loss").cells.size(), 30u);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("the index is kept in memory"), std::string::npos) << said[0];
}

TEST(RunIndex, rows_beyond_the_limit_wait_in_the_cache_and_come_back_when_a_run_grows) {
  const RecordFolder folder;
  auto options = folder.options();
  options.most_row_bytes = 1;
  RunIndex index(options);
  for (int part = 0; part < 4; ++part) {
    for (const char* run : {"a", "b", "c"}) folder.append(run, step_lines(100 * part + 1, 100 * part + 100));
    index.refresh();
  }
  for (const char* run : {"a", "b", "c"}) EXPECT_EQ(curve_named(index, run, "loss").cells.size(), 400u);
  RunIndex second(options);
  second.refresh();
  EXPECT_EQ(second.progress().bytes, 0u) << "all that was read lies in the cache";
}

TEST(RunIndex, readers_see_whole_curves_while_runs_grow_and_go_and_their_rows_are_put_away) {
  const RecordFolder folder;
  auto options = folder.options();
  options.most_row_bytes = 1;  // rows come and go between memory and cache with every look
  RunIndex index(options);
  std::atomic<int> read = 0;
  const auto look = [&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto all = index.runs(0);
      for (const auto& run : all["runs"]) {
        index.about(run["id"]);
        for (const auto& s : run["series"]) {
          if (s["name"] != "loss") continue;
          const auto curve = index.curve({run["id"], s["id"]}, {.from = s["first"], .to = s["last"]});
          if (!curve) continue;      // it has gone
          if (run["name"] != "c") {  // which begins anew
            EXPECT_GE(curve->cells.size(), s["rows"].get<std::size_t>());
          }
          for (const Curve::Cell& cell : curve->cells) EXPECT_EQ(cell.mean, cell.x) << "each step has its number as its loss";
          ++read;
        }
      }
      index.progress();
    }
  };
  {
    const std::jthread first(look), second(look);
    for (int part = 0; part < 30; ++part) {
      for (const char* run : {"a", "b", "c"}) folder.append(run, step_lines(20 * part + 1, 20 * part + 20));
      if (part % 10 == 9) fs::remove_all(folder.runs() / "c");
      index.refresh();
      if (part % 5 == 4) index.save();
      for (const int before = read; read == before;) std::this_thread::yield();
    }
  }
  EXPECT_EQ(curve_named(index, "a", "loss").cells.size(), 600u);
}

TEST(RunIndex, a_removed_run_goes_and_a_rotated_one_is_read_anew) {
  const RecordFolder folder;
  folder.append("a", start_line() + step_lines(1, 9));
  folder.append("b", start_line() + step_lines(1, 9));
  RunIndex index(folder.options());
  index.refresh();
  fs::rename(folder.record("a"), folder.runs() / "a" / "run.jsonl.1");
  folder.append("a", start_line() + step_lines(1, 2));
  fs::remove_all(folder.runs() / "b");
  index.refresh();
  EXPECT_EQ(curve_named(index, "a", "loss").cells.size(), 2u);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);  // folders are searched every two seconds
  while (index.runs(0)["runs"].size() > 1 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    index.refresh();
  }
  EXPECT_EQ(index.runs(0)["ids"].size(), 1u);
}

TEST(RunIndex, no_link_is_followed_and_nothing_but_files_is_opened) {
  const RecordFolder folder;
  fs::create_directories(folder.outside() / "secret");
  write_text(folder.outside() / "secret" / "run.jsonl", start_line() + step_line(1, 42));
  write_text(folder.outside() / "summary.json", "{\"secret\": 42}");
  folder.append("good", start_line() + step_line(1, 1) + end_line("ok"));
  fs::create_directory_symlink(folder.outside(), folder.runs() / "link");
  fs::create_directory(folder.runs() / "file-link");
  fs::create_symlink(folder.outside() / "secret" / "run.jsonl", folder.runs() / "file-link" / "run.jsonl");
  fs::create_directory(folder.runs() / "loop");
  fs::create_directory_symlink("..", folder.runs() / "loop" / "up");
  fs::create_directories(folder.runs() / "is-folder" / "run.jsonl");
  fs::create_directory(folder.runs() / "pipe");
  ASSERT_EQ(::mkfifo((folder.runs() / "pipe" / "run.jsonl").c_str(), 0600), 0);
  fs::create_symlink(folder.outside() / "summary.json", folder.runs() / "good" / "summary.json");
  RunIndex index(folder.options());
  index.refresh();
  const auto all = index.runs(0);
  ASSERT_EQ(all["runs"].size(), 1u);
  EXPECT_EQ(all["runs"][0]["name"], "good");
  EXPECT_TRUE(index.about(all["runs"][0]["id"])->at("results").empty());
  // A folder that is known and then becomes a link, too.
  fs::rename(folder.runs() / "good", folder.outside() / "moved");
  fs::create_directory_symlink(folder.outside() / "secret", folder.runs() / "good");
  index.refresh();
  EXPECT_EQ(run_named(index, "good")["series"][0]["value"], 1);
}

TEST(RunIndex, what_a_run_was_given_and_came_to_is_told) {
  const RecordFolder folder;
  folder.append(
      "a", start_line(R"(,"spec":{"lr":0.5},"parallel":"ddp","ranks":2)") + step_line(1, 1) + "{\"event\":\"eval\",\"accuracy\":0.5}\n" + end_line("failed"));
  write_text(folder.runs() / "a" / "summary.json", R"({"status":"failed","last_epoch":{"val_loss":2},"samples_ms":[1,2,3]})");
  RunIndex index(folder.options());
  index.refresh();
  const auto run = run_named(index, "a");
  EXPECT_EQ(run["parallel"], "ddp");
  EXPECT_EQ(run["status"], "failed");
  const auto about = index.about(run["id"]);
  EXPECT_EQ(about->at("start")["spec"]["lr"], 0.5);
  EXPECT_EQ(about->at("results").dump(), R"({"status":"failed","last_epoch.val_loss":2,"eval.accuracy":0.5})");
}

TEST(RunIndex, a_summary_is_of_the_last_run_of_its_record_once_that_has_ended) {
  const RecordFolder folder;
  const auto results = [&] {
    RunIndex index(folder.options());
    index.refresh();
    std::vector<std::string> out;
    for (const char* run : {"a", "a (2)"}) out.push_back(index.about(run_named(index, run)["id"])->at("results").dump());
    return out;
  };
  folder.append("a", start_line() + step_line(1, 1) + end_line("ok") + start_line() + step_line(1, 2));
  write_text(folder.runs() / "a" / "summary.json", R"({"model":"first"})");
  EXPECT_EQ(results(), (std::vector<std::string>{"{}", "{}"}));
  write_text(folder.runs() / "a" / "summary.json", R"({"model":"second"})");
  folder.append("a", end_line("ok"));
  EXPECT_EQ(results(), (std::vector<std::string>{"{}", R"({"model":"second"})"}));
}

TEST(RunIndex, a_hundred_runs_of_a_hundred_thousand_steps_take_a_minute_first_and_then_two_seconds) {
  if (!testing::is_full_run()) GTEST_SKIP() << "takes a gigabyte of disk: --full";
  const RecordFolder folder;
  for (int run = 0; run < 100; ++run) {
    std::string text = start_line();
    for (int step = 1; step <= 100000; ++step)
      text += fmt::format("{{\"event\":\"step\",\"step\":{},\"epoch\":1,\"loss\":{},\"lr\":0.001,\"ms\":{},\"samples_per_s\":{}}}\n", step, 1.0 / (step + run),
                          20 + 1e-3 * (step % 77), 3000.0 + (step * 31 + run) % 1009);
    folder.append(fmt::format("r{}", run), text);
  }
  using Seconds = std::chrono::duration<double>;
  auto begin = std::chrono::steady_clock::now();
  {
    RunIndex index(folder.options());
    index.refresh();
    index.save();
    EXPECT_LT(Seconds(std::chrono::steady_clock::now() - begin).count(), 60);
    EXPECT_EQ(index.runs(0)["runs"].size(), 100u);
  }
  std::uintmax_t bytes = 0;
  for (const fs::path& file : cached(folder)) bytes += fs::file_size(file);
  EXPECT_LT(bytes, 500'000'000u);
  begin = std::chrono::steady_clock::now();
  RunIndex index(folder.options());
  index.refresh();
  EXPECT_LT(Seconds(std::chrono::steady_clock::now() - begin).count(), 2);
  EXPECT_EQ(index.progress().bytes, 0u);
  EXPECT_LE(exported_page(index, 10'000'000).text.size(), 10'000'000u);
}

}  // namespace
}  // namespace gemel::monitor
