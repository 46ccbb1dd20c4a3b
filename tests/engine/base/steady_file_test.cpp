// Files that are read while work goes on, and files that grow by whole records.
#include "engine/base/files/steady_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/files/record_file.h"
#include "tests/support/faults/full_disk.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel {
namespace {

namespace fs = std::filesystem;
using testing::message_of, testing::read_text, testing::TemporaryFolder, testing::write_text;

std::string piece(const SteadyFile& file, std::int64_t offset, std::size_t size) {
  std::vector<std::byte> out(size);
  file.read(offset, out);
  return std::string(as_text(out));
}

std::string changed(const fs::path& path, const std::string& how) {
  return "read: " + path.string() + " has changed since it was opened: " + how + "; accepted: data that stay as they are while they are in use";
}

TEST(SteadyFile, is_read_piece_by_piece) {
  const TemporaryFolder folder;
  write_text(folder / "a", "0123456789");
  const SteadyFile file(folder / "a");
  EXPECT_EQ(file.bytes(), 10);
  EXPECT_EQ(piece(file, 7, 3), "789");
  EXPECT_EQ(piece(file, 0, 4), "0123");
  file.check_unchanged();
}

TEST(SteadyFile, one_that_shrinks_is_an_error_and_no_signal) {
  const TemporaryFolder folder;
  write_text(folder / "a", std::string(10'000, 'x'));
  const SteadyFile file(folder / "a");
  fs::resize_file(folder / "a", 10);
  EXPECT_EQ(message_of<DataError>([&] { piece(file, 5000, 3); }), changed(folder / "a", "it had 10000 bytes, and has 10"));
  EXPECT_EQ(message_of<DataError>([&] { file.check_unchanged(); }), changed(folder / "a", "it had 10000 bytes, and has 10"));
  EXPECT_EQ(piece(file, 5, 3), "xxx") << "what is there can be read";
}

TEST(SteadyFile, another_content_and_another_file_are_told_apart) {
  const TemporaryFolder folder;
  write_text(folder / "a", "first");
  const SteadyFile file(folder / "a");
  fs::last_write_time(folder / "a", fs::last_write_time(folder / "a") + std::chrono::seconds(1));
  EXPECT_EQ(message_of<DataError>([&] { file.check_unchanged(); }), changed(folder / "a", "it was written to"));
  const SteadyFile again(folder / "a");
  write_file_atomically(folder / "a", [](FileWriter& out) { out.write("other"); });
  EXPECT_EQ(message_of<DataError>([&] { again.check_unchanged(); }), changed(folder / "a", "another file is in its place"));
  EXPECT_EQ(piece(again, 0, 5), "first");
}

TEST(SteadyFile, one_without_a_name_can_still_be_read) {
  const TemporaryFolder folder;
  write_text(folder / "a", "first");
  const SteadyFile file(folder / "a");
  fs::remove(folder / "a");
  file.check_unchanged();
  EXPECT_EQ(piece(file, 0, 5), "first");
}

TEST(RecordFile, a_record_that_does_not_fit_leaves_none_of_its_bytes) {
  const TemporaryFolder folder;
  RecordFile file(open_regular("log", folder / "a", O_WRONLY | O_CREAT | O_APPEND), folder / "a");
  file.append("first\n");
  const std::string message = message_of<DataError>([&] {
    const testing::FilesUpTo limit(10);
    file.append("second\n");
  });
  EXPECT_EQ(message, "write: cannot write " + (folder / "a").string() + ": File too large");
  EXPECT_EQ(read_text(folder / "a"), "first\n");
  file.append("third\n");
  EXPECT_EQ(read_text(folder / "a"), "first\nthird\n");
}

}  // namespace
}  // namespace gemel
