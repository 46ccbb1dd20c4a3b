// TensorBoard event files: records and their checksums.
#include "engine/files/tensorboard.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "tests/support/formats/tensorboard_events.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel {
namespace {

using testing::LoggedEvent, testing::message_of, testing::points_shown, testing::read_events, testing::read_text, testing::TemporaryFolder, testing::write_text;

std::uint32_t crc32c(std::string_view text) { return std::rotl(masked_crc32c(std::as_bytes(std::span(text))) - 0xa282ead8u, 15); }

TEST(TensorBoard, crc32c_gives_the_published_values) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);  // the check value of CRC-32C
  // RFC 3720, appendix B.4
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string ascending(32, '\0');
  for (std::size_t i = 0; i < 32; ++i) ascending[i] = static_cast<char>(i);
  EXPECT_EQ(crc32c(ascending), 0x46DD794Eu);
}

TEST(TensorBoard, scalars_are_in_the_file_as_soon_as_they_are_written) {
  const TemporaryFolder folder;
  TensorBoardWriter writer(folder / "runs/first");
  EXPECT_EQ(writer.path().filename().string().rfind("events.out.tfevents.", 0), 0u);
  ASSERT_EQ(read_events(writer.path()).size(), 1u);
  EXPECT_EQ(read_events(writer.path())[0].file_version, "brain.Event:2");

  writer.scalar("train/loss", 2.5f, 1);
  ASSERT_EQ(read_events(writer.path()).size(), 2u);
  writer.scalar("train/loss", std::numeric_limits<float>::quiet_NaN(), 300);
  writer.scalar(std::string(200, 't'), -0.25f, std::int64_t{1} << 40);
  const std::vector<LoggedEvent> events = read_events(writer.path());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[1].tag, "train/loss");
  EXPECT_EQ(events[1].value, 2.5f);
  EXPECT_EQ(events[1].step, 1u);
  EXPECT_EQ(events[2].step, 300u);
  EXPECT_TRUE(events[2].value && std::isnan(*events[2].value));
  EXPECT_EQ(events[3].tag, std::string(200, 't'));
  EXPECT_EQ(events[3].step, std::uint64_t{1} << 40);
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_NEAR(events[3].wall_time, now, 600);  // seconds: the unit is right, and the clock may be slewed
}

TEST(TensorBoard, two_writers_of_one_folder_have_two_files) {
  const TemporaryFolder folder;
  const TensorBoardWriter a(folder.path()), b(folder.path());
  EXPECT_NE(a.path(), b.path());
}

TEST(TensorBoard, a_run_that_begins_at_a_step_takes_the_place_of_what_stands_from_there_on) {
  const TemporaryFolder folder;
  {
    TensorBoardWriter killed(folder.path());
    killed.begin_at(1);
    for (int step = 1; step <= 6; ++step) killed.scalar("loss", static_cast<float>(step), step);
    killed.scalar("accuracy", 0.5f, 4);
  }
  {
    TensorBoardWriter resumed(folder.path());
    resumed.begin_at(5);
    EXPECT_EQ(read_events(resumed.path()).at(1).session_status, 1u) << "START, by which TensorBoard goes";
    EXPECT_EQ(read_events(resumed.path()).at(1).step, 5u);
    for (int step = 5; step <= 7; ++step) resumed.scalar("loss", static_cast<float>(10 * step), step);
  }
  TensorBoardWriter again(folder.path());
  again.begin_at(7);
  again.scalar("loss", 700, 7);
  const auto shown = points_shown(folder.path());
  using Points = std::vector<std::pair<std::uint64_t, float>>;
  EXPECT_EQ(shown.at("loss"), (Points{{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 50}, {6, 60}, {7, 700}}));
  EXPECT_EQ(shown.at("accuracy"), (Points{{4, 0.5f}}));
}

/// A run may be killed and started again within a second, on a machine whose clock is behind or whose process numbers begin anew.
TEST(TensorBoard, a_new_file_is_the_last_by_its_name) {
  const TemporaryFolder folder;
  for (const char* name : {"events.out.tfevents.4000000000.zebra.9.0", "events.out.tfevents.x", "events.out.tfevents.99999999999999999999.z.1.0",
                           "events.out.tfevents.", "events.out"})
    write_text(folder / name, "");
  const TensorBoardWriter first(folder.path()), second(folder.path());
  EXPECT_EQ(first.path().filename().string().rfind("events.out.tfevents.4000000001.", 0), 0u) << first.path();
  EXPECT_GT(second.path(), first.path());
}

TEST(TensorBoard, a_folder_that_cannot_be_made_is_named) {
  const TemporaryFolder folder;
  write_text(folder / "file", "");
  EXPECT_EQ(message_of<DataError>([&] { TensorBoardWriter(folder / "file/runs"); }),
            "tensorboard: cannot create the folder " + (folder / "file/runs").string() + ": Not a directory");
}

}  // namespace
}  // namespace gemel
