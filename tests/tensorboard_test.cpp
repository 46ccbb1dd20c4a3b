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
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace gemel {
namespace {

using testing::message_of, testing::read_text, testing::TemporaryFolder, testing::write_text;

std::uint32_t crc32c(std::string_view text) {
  return std::rotl(masked_crc32c(std::as_bytes(std::span(text))) - 0xa282ead8u, 15);
}

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

/// A decoder of its own for the few fields that an event has.
struct LoggedEvent {
  double wall_time = 0;
  std::uint64_t step = 0;
  std::string file_version, tag;
  std::optional<float> value;
};

class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}
  bool next() {
    if (bytes_.empty()) return false;
    const std::uint64_t key = varint();
    number = key >> 3;
    switch (key & 7) {
      case 0:
        integer = varint();
        break;
      case 1:
        text = take(8);
        break;
      case 2:
        text = take(varint());
        break;
      case 5:
        text = take(4);
        break;
      default:
        throw std::runtime_error("an unknown wire type");
    }
    return true;
  }
  template <class T>
  T fixed() const {
    T value{};
    std::memcpy(&value, text.data(), sizeof value);
    return value;
  }
  std::uint64_t number = 0, integer = 0;
  std::string_view text;

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view take(std::size_t n) {
    if (n > bytes_.size()) throw std::runtime_error("a field ends beyond its message");
    const std::string_view taken = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return taken;
  }
  std::string_view bytes_;
};

LoggedEvent decode(std::string_view bytes) {
  LoggedEvent event;
  for (Fields f(bytes); f.next();) {
    if (f.number == 1) event.wall_time = f.fixed<double>();
    if (f.number == 2) event.step = f.integer;
    if (f.number == 3) event.file_version = f.text;
    if (f.number != 5) continue;
    for (Fields summary(f.text); summary.next();)
      for (Fields value(summary.text); value.next();) {
        if (value.number == 1) event.tag = value.text;
        if (value.number == 2) event.value = value.fixed<float>();
      }
  }
  return event;
}

std::vector<LoggedEvent> read_events(const std::filesystem::path& path) {
  const std::string file = read_text(path);
  std::string_view rest = file;
  const auto number = [&](std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, rest.data() + at, size);
    return value;
  };
  std::vector<LoggedEvent> events;
  while (!rest.empty()) {
    if (rest.size() < 16) throw std::runtime_error("a record is truncated");
    const std::uint64_t length = number(0, 8);
    EXPECT_EQ(number(8, 4), masked_crc32c(std::as_bytes(std::span(rest.substr(0, 8)))));
    const std::string_view data = rest.substr(12, length);
    EXPECT_EQ(number(12 + length, 4), masked_crc32c(std::as_bytes(std::span(data))));
    events.push_back(decode(data));
    rest.remove_prefix(16 + length);
  }
  return events;
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

TEST(TensorBoard, a_folder_that_cannot_be_made_is_named) {
  const TemporaryFolder folder;
  write_text(folder / "file", "");
  EXPECT_EQ(message_of<DataError>([&] { TensorBoardWriter(folder / "file/runs"); }),
            "tensorboard: cannot create the folder " + (folder / "file/runs").string() + ": Not a directory");
}

}  // namespace
}  // namespace gemel
