// A record as it grows: half lines, restarts, files that are cut, replaced or written anew.
#include "frontends/monitor/run_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/monitor/records.h"

namespace gemel::monitor {
namespace {

using namespace gemel::testing;

class RunRecord : public ::testing::Test {
 protected:
  void append(const std::string& text) { folder_.append("r", text); }
  void write(const std::string& text) { write_text(folder_.record("r"), text); }
  void read() {
    const Descriptor descriptor = opened(folder_.record("r"));
    while (file_.read_some(descriptor.get(), 4096)) continue;
  }
  const RunTable& table(const char* event, int rank = -1) const {
    for (const RunTable& t : file_.runs().back().tables)
      if (t.event == event && t.rank == rank) return t;
    throw std::out_of_range(event);
  }
  std::vector<float> column(const char* event, const char* name, int rank = -1) const {
    for (const auto& c : table(event, rank).table.columns())
      if (c.name == name) return c.values;
    throw std::out_of_range(name);
  }
  std::vector<double> xs(const char* event, int rank = -1) const {
    const auto all = table(event, rank).table.xs();
    return {all.begin(), all.end()};
  }
  RecordFolder folder_;
  RunFile file_;
};

TEST_F(RunRecord, a_half_written_last_line_is_left_until_it_is_whole) {
  append(start_line() + step_line(1, 0.5) + R"({"event":"step","st)");
  read();
  EXPECT_EQ(xs("step"), (std::vector<double>{1}));
  read();
  EXPECT_EQ(xs("step"), (std::vector<double>{1}));
  append("ep\":2,\"loss\":0.25}\n");
  read();
  EXPECT_EQ(column("step", "loss"), (std::vector<float>{0.5, 0.25}));
}

TEST_F(RunRecord, lines_in_any_pieces_come_to_the_same) {
  std::string text = start_line() + step_lines(1, 40) + usage_line(0, 1.5, 0.9) + usage_line(1, 1.5, 0.8) + end_line("ok");
  for (std::size_t begin = 0; begin < text.size(); begin += 37) {
    append(text.substr(begin, 37));
    read();
  }
  EXPECT_EQ(table("step").rows, 40u);
  EXPECT_EQ(column("step", "loss")[39], 40);
  EXPECT_EQ(column("usage", "cpu", 1), (std::vector<float>{0.8f}));
  EXPECT_EQ(file_.runs()[0].status, "ok");
  EXPECT_EQ(file_.so_far().bytes, text.size());
}

TEST_F(RunRecord, where_a_step_stands_twice_the_last_counts_and_going_on_is_a_mark) {
  append(start_line() + step_lines(1, 10));
  read();
  append(start_line(R"(,"resumed_from":"c/checkpoint-6.safetensors","restart":1,"lost":"rank 1 (b): silent")") + step_line(7, 70) + step_line(8, 80));
  read();
  ASSERT_EQ(file_.runs().size(), 1u);
  EXPECT_EQ(table("step").rows, 10u);
  EXPECT_EQ(column("step", "loss"), (std::vector<float>{1, 2, 3, 4, 5, 6, 70, 80, 9, 10}));
  ASSERT_EQ(file_.runs()[0].marks.size(), 1u);
  EXPECT_EQ(file_.runs()[0].marks[0].step, 10);
  EXPECT_EQ(file_.runs()[0].marks[0].text, "resumed from c/checkpoint-6.safetensors; lost rank 1 (b): silent");
  EXPECT_EQ(file_.runs()[0].status, "");
}

TEST_F(RunRecord, a_start_that_goes_on_with_nothing_is_another_run) {
  append(start_line() + step_lines(1, 3) + end_line("ok") + start_line() + step_lines(1, 2));
  read();
  ASSERT_EQ(file_.runs().size(), 2u);
  EXPECT_EQ(file_.runs()[0].tables[0].rows, 3u);
  EXPECT_EQ(file_.runs()[0].status, "ok");
  EXPECT_EQ(file_.runs()[1].tables[0].rows, 2u);
}

TEST_F(RunRecord, time_goes_on_where_a_run_was_killed_and_its_clock_begins_anew) {
  append(start_line() + usage_line(0, 1, 0.1) + usage_line(0, 2, 0.2) + start_line(R"(,"resumed_from":"c")") + usage_line(0, 1, 0.3) + usage_line(0, 2, 0.4));
  read();
  EXPECT_EQ(xs("usage", 0), (std::vector<double>{1, 2, 3, 4}));
}

TEST_F(RunRecord, the_time_of_steps_adds_up) {
  append(start_line() + step_lines(1, 3));
  read();
  EXPECT_EQ(column("step", "seconds"), (std::vector<float>{0.002f, 0.004f, 0.006f}));
}

TEST_F(RunRecord, a_file_that_was_cut_is_read_anew) {
  append(start_line() + step_lines(1, 9));
  read();
  write(start_line() + step_lines(1, 2));
  read();
  EXPECT_EQ(table("step").rows, 2u);
}

TEST_F(RunRecord, a_file_that_was_cut_and_has_outgrown_itself_is_read_anew) {
  append(start_line() + step_lines(1, 9));
  read();
  write(start_line() + step_lines(101, 150));
  read();
  EXPECT_EQ(xs("step").front(), 101);
  EXPECT_EQ(table("step").rows, 50u);
}

TEST_F(RunRecord, a_file_in_the_place_of_another_is_read_anew) {
  append(start_line() + step_lines(1, 9));
  read();
  std::filesystem::rename(folder_.record("r"), folder_.runs() / "old");
  append(start_line() + step_lines(1, 9) + step_lines(20, 21));
  read();
  EXPECT_EQ(table("step").rows, 11u);
}

TEST_F(RunRecord, lines_that_are_nothing_are_passed_over) {
  append(
      "\n\n{}\n[1]\nno line\n{\"event\":\"step\",\"loss\":1}\n{\"event\":\"step\",\"step\":-4,\"loss\":1}\n{\"event\":\"usage\",\"rank\":1e9,\"seconds\":1}\n" +
      step_line(3, 1) + std::string(100, '\0') + "\n" + step_line(4, 1));
  read();
  EXPECT_EQ(table("step").rows, 2u);
  EXPECT_EQ(file_.runs().size(), 1u);
}

TEST_F(RunRecord, a_line_longer_than_any_record_is_left_out_up_to_its_end) {
  append(step_line(1, 1) + "{\"a\":\"" + std::string(std::size_t{40} << 20, 'x') + "\"}\n" + step_line(2, 2));
  read();
  EXPECT_EQ(xs("step"), (std::vector<double>{1, 2}));
}

TEST_F(RunRecord, events_of_other_kinds_are_marks_and_evaluations_are_results) {
  append(start_line() + step_line(5, 1) + "{\"event\":\"worker-lost\",\"rank\":2}\n{\"event\":\"eval\",\"accuracy\":0.75}\n");
  read();
  ASSERT_EQ(file_.runs()[0].marks.size(), 1u);
  EXPECT_EQ(file_.runs()[0].marks[0].text, "worker-lost (rank 2)");
  EXPECT_EQ(file_.runs()[0].results.at("accuracy"), 0.75);
}

TEST_F(RunRecord, names_and_marks_that_are_too_long_are_cut_between_characters) {
  const std::string begin(199, 'n'), name = begin + "\xc3\xa9 goes on", resumed(900, 'c');
  append(start_line() + "{\"event\":\"step\",\"step\":1,\"" + name + "\":7}\n{\"event\":\"eval\",\"" + name + "\":0.5}\n{\"event\":\"" + resumed + "\"}\n" +
         start_line(",\"resumed_from\":\"" + resumed + "\""));
  read();
  EXPECT_EQ(column("step", begin.c_str()), (std::vector<float>{7}));
  EXPECT_EQ(file_.runs()[0].results.at(begin), 0.5);
  ASSERT_EQ(file_.runs()[0].marks.size(), 2u);
  EXPECT_EQ(file_.runs()[0].marks[0].text.size(), 500u);
  EXPECT_EQ(file_.runs()[0].marks[1].text.size(), 500u);
}

}  // namespace
}  // namespace gemel::monitor
