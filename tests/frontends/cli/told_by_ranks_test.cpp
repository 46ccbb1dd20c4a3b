// What ranks of a job that may go on without some of them tell the launcher.
#include "frontends/cli/launch/told_by_ranks.h"

#include <gtest/gtest.h>

#include <string>

namespace gemel::cli {
namespace {

using std::chrono::seconds;

const ToldByRanks::Clock::time_point kBegin{};

LauncherLine loss_of_rank_0_by(int rank) { return {.loss_of_rank_0 = ToldLoss{rank, {.rank = 0, .ranks = 4, .host = "a", .why = "has been silent for 8 s"}}}; }

TEST(ToldByRanks, rank_0_is_lost_where_it_does_not_go_on_without_who_says_so) {
  ToldByRanks told;
  EXPECT_EQ(told.take(loss_of_rank_0_by(2), kBegin + seconds(1)), "");
  EXPECT_EQ(told.take(loss_of_rank_0_by(1), kBegin + seconds(2)), "");
  told.take(loss_of_rank_0_by(2), kBegin + seconds(3));
  EXPECT_FALSE(told.loss_of_rank_0(kBegin));
  const auto loss = told.loss_of_rank_0(kBegin + seconds(2));
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->by, 2);
  EXPECT_EQ(loss->lost.text(), "rank 0 of 4 on a has been silent for 8 s");
  told.take({.gone_on_without = 2}, kBegin + seconds(4));
  EXPECT_EQ(told.loss_of_rank_0(kBegin + seconds(4))->by, 1);
}

TEST(ToldByRanks, a_rank_is_cut_off_where_rank_0_goes_on_without_it_whoever_tells_first) {
  for (const bool rank_0_is_first : {true, false}) {
    ToldByRanks told;
    const LauncherLine lines[] = {{.gone_on_without = 2}, loss_of_rank_0_by(2)};
    EXPECT_EQ(told.take(lines[rank_0_is_first ? 0 : 1], kBegin), "");
    EXPECT_EQ(told.take(lines[rank_0_is_first ? 1 : 0], kBegin), "gemel: rank 0 has given up rank 2 of 4, which ends\n");
    EXPECT_FALSE(told.loss_of_rank_0(kBegin + seconds(9)));
    EXPECT_EQ(told.take({.gone_on_without = 3}, kBegin), "") << "it was killed";
  }
}

TEST(ToldByRanks, the_first_status_counts_and_who_loses_rank_0_then_comes_of_it) {
  ToldByRanks told;
  EXPECT_FALSE(told.status());
  told.take({.status = 0}, kBegin);
  told.take({.status = 4}, kBegin);
  told.take(loss_of_rank_0_by(1), kBegin);
  EXPECT_EQ(told.status(), 0);
  EXPECT_FALSE(told.loss_of_rank_0(kBegin + seconds(9)));
}

TEST(LauncherLine, is_what_a_rank_wrote) {
  const auto written = [](const auto& tells) {
    ::testing::internal::CaptureStderr();
    tells();
    const std::string line = ::testing::internal::GetCapturedStderr();
    return LauncherLine::of(std::string_view(line).substr(0, line.find('\n')));
  };
  EXPECT_TRUE(written([] { tell_begin(); }).begins);
  EXPECT_EQ(written([] { tell_end(4); }).status, 4);
  EXPECT_EQ(written([] { tell_gone_on_without(12); }).gone_on_without, 12);
  const auto loss = written([] { tell_loss_of_rank_0(3, {.rank = 0, .ranks = 4, .host = "a", .why = "was lost: its connection closed"}); }).loss_of_rank_0;
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->by, 3);
  EXPECT_EQ(loss->lost.text(), "rank 0 of 4 on a was lost: its connection closed");
  for (const char* other : {"gemel-launch: rank 0 is lost {", "gemel-launch: x", "gemel: rank 0 is lost {}"}) {
    const LauncherLine line = LauncherLine::of(other);
    EXPECT_FALSE(line.begins || line.status || line.gone_on_without || line.loss_of_rank_0) << other;
  }
}

}  // namespace
}  // namespace gemel::cli
