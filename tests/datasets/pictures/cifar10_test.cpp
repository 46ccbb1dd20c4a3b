// CIFAR-10's binary files, whole and damaged.
#include "datasets/pictures/cifar10.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "tests/support/formats/tar_archive.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::datasets {
namespace {

using testing::message_of;

namespace fs = std::filesystem;
using namespace gemel::testing;

constexpr auto kRecord = static_cast<std::size_t>(Cifar10Dataset::kRecordBytes);
constexpr auto kBytes = static_cast<std::size_t>(Cifar10Dataset::kFileBytes);
const std::vector<std::string> kFiles{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};

/// Byte k of the pictures here; k counts from the record's label on.
std::uint8_t pixel(std::size_t k) { return static_cast<std::uint8_t>(k * 31 + 7); }

void put(const fs::path& path, std::size_t offset, std::string_view bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Files of the right size, all zeros but one record of label 3 each: record 5 of the first, record 6 of the second...
/// The zeros are holes that take no space on the disk.
void make_files(const fs::path& folder) {
  std::string record(kRecord, '\3');
  for (std::size_t k = 1; k < kRecord; ++k) record[k] = static_cast<char>(pixel(k));
  for (std::size_t i = 0; i < kFiles.size(); ++i) {
    write_text(folder / kFiles[i], "");
    fs::resize_file(folder / kFiles[i], kBytes);
    put(folder / kFiles[i], (5 + i) * kRecord, record);
  }
}

Splits open(const fs::path& data, Normalize normalize = Normalize::none) { return open_dataset({.name = "cifar10", .data = data, .normalize = normalize}); }

void expect_the_marked_records(const Splits& splits) {
  ASSERT_EQ(splits.train->size(), 50000);
  ASSERT_EQ(splits.validation->size(), 10000);
  EXPECT_EQ(splits.train->classes(), 10);
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < 50000; ++i) sum += splits.train->label(i);
  EXPECT_EQ(sum, 15);
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(splits.train->label(i * 10000 + 5 + i), 3);
  EXPECT_EQ(splits.validation->label(10), 3);
  std::vector<float> out(3072);
  splits.train->copy(20007, {}, out);
  for (std::size_t y = 0; y < 32; ++y)
    for (std::size_t x = 0; x < 32; ++x)
      for (std::size_t c = 0; c < 3; ++c) ASSERT_EQ(out[(y * 32 + x) * 3 + c], static_cast<float>(pixel(1 + c * 1024 + y * 32 + x)) / 255.0f);
}

TEST(Cifar10, a_folder_of_the_binary_files_is_read) {
  const TemporaryFolder folder;
  make_files(folder.path());
  expect_the_marked_records(open(folder.path()));
}

TEST(Cifar10, a_folder_that_holds_the_official_folder_is_read) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "cifar-10-batches-bin");
  make_files(folder / "cifar-10-batches-bin");
  expect_the_marked_records(open(folder.path()));
}

TEST(Cifar10, the_archive_is_read_in_any_order_with_other_members) {
  const TemporaryFolder folder;
  make_files(folder.path());
  const std::string top = "cifar-10-batches-bin/";
  std::string tar = tar_member(top, "", '5') + tar_member(top + "readme.html", "text");
  for (auto name = kFiles.rbegin(); name != kFiles.rend(); ++name) tar += tar_member(top + *name, read_text(folder.path() / *name));
  write_text(folder / "c.tar.gz", gzip(tar + tar_end()));
  expect_the_marked_records(open(folder / "c.tar.gz"));
  write_text(folder / "c.tar", tar + tar_end());
  expect_the_marked_records(open(folder / "c.tar"));
}

TEST(Cifar10, the_version_for_python_is_named) {
  const TemporaryFolder folder;
  write_text(folder / "c.tar.gz", gzip(tar_member("cifar-10-batches-py/", "", '5') + tar_member("cifar-10-batches-py/data_batch_1", "pickle") + tar_end()));
  EXPECT_EQ(message_of<DataError>([&] { open(folder / "c.tar.gz"); }),
            "cifar10: " + (folder / "c.tar.gz").string() + " is the version for Python; accepted: the binary version, cifar-10-binary.tar.gz");
  fs::create_directory(folder / "cifar-10-batches-py");
  EXPECT_EQ(message_of<DataError>([&] { open(folder.path()); }),
            "cifar10: " + folder.path().string() + " has the version for Python; accepted: the binary version, cifar-10-binary.tar.gz");
}

TEST(Cifar10, standard_normalisation_follows_the_published_mean_and_deviation) {
  const TemporaryFolder folder;
  make_files(folder.path());
  const Splits splits = open(folder.path(), Normalize::standard);
  std::vector<float> out(3072);
  splits.train->copy(5, {}, out);
  const float mean[]{0.4914f, 0.4822f, 0.4465f}, deviation[]{0.2470f, 0.2435f, 0.2616f};
  for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(out[c], (static_cast<float>(pixel(1 + c * 1024)) / 255.0f - mean[c]) / deviation[c]);
  // What a crop adds is a black pixel, which is normalised, too.
  splits.train->copy(5, {.top = -1}, out);
  EXPECT_EQ(out[0], -mean[0] / deviation[0]);
}

TEST(Cifar10, missing_and_truncated_files_are_named_with_their_sizes) {
  const TemporaryFolder folder;
  make_files(folder.path());
  const auto path = [&](const char* name) { return (folder / name).string(); };
  fs::resize_file(folder / "data_batch_4.bin", kBytes - 1);
  EXPECT_EQ(message_of<DataError>([&] { open(folder.path()); }), "cifar10: " + path("data_batch_4.bin") + " has 30729999 bytes; expected: 30730000");
  fs::resize_file(folder / "data_batch_4.bin", kBytes + 1);
  EXPECT_EQ(message_of<DataError>([&] { open(folder.path()); }), "cifar10: " + path("data_batch_4.bin") + " has 30730001 bytes; expected: 30730000");
  fs::remove(folder / "data_batch_4.bin");
  EXPECT_EQ(message_of<DataError>([&] { open(folder.path()); }), "cifar10: " + path("data_batch_4.bin") + " is missing; expected: a file of 30730000 bytes");
  EXPECT_EQ(message_of<DataError>([&] { open(folder / "none"); }), "cifar10: " + path("none") +
                                                                       " does not exist; accepted: a folder with data_batch_1.bin and the other files, or "
                                                                       "the official .tar.gz, or that unpacked to a .tar");
}

TEST(Cifar10, a_file_that_changes_under_its_reader_is_named) {
  const TemporaryFolder folder;
  make_files(folder.path());
  const Splits splits = open(folder.path());
  const auto first_of = [&](std::int64_t file) { splits.train->tensors(std::vector{file * Cifar10Dataset::kRecordsPerFile}); };
  first_of(0);
  fs::resize_file(folder / "data_batch_4.bin", 1000);
  const std::string changed =
      "read: " + (folder / "data_batch_4.bin").string() + " has changed since it was opened: it had 30730000 bytes, and has 1000; accepted: ";
  for (const std::int64_t file : {0, 3}) EXPECT_EQ(message_of<DataError>([&] { first_of(file); }).rfind(changed, 0), 0u) << "a batch of file " << file;
  splits.validation->tensors(std::vector<std::int64_t>{0});
}

TEST(Cifar10, a_label_over_9_is_named_with_file_and_record) {
  const TemporaryFolder folder;
  make_files(folder.path());
  put(folder / "test_batch.bin", 9999 * kRecord, "\x0a");
  EXPECT_EQ(message_of<DataError>([&] { open(folder.path()); }),
            "cifar10: " + (folder / "test_batch.bin").string() + ": record 9999 (from 0) has label 10; accepted: 0..9");
}

TEST(Cifar10, archives_with_wrong_members_are_refused_before_anything_is_allocated) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& tar) {
    write_text(folder / "c.tar.gz", gzip(tar));
    const std::string text = message_of<DataError>([&] { open(folder / "c.tar.gz"); });
    const std::string start = "cifar10: " + (folder / "c.tar.gz").string();
    EXPECT_EQ(text.rfind(start, 0), 0u) << text;
    return text.substr(std::min(start.size(), text.size()));
  };
  EXPECT_EQ(message(tar_end()), " lacks data_batch_1.bin; expected: a file of 30730000 bytes");
  EXPECT_EQ(message(tar_member("a/data_batch_2.bin", "short") + tar_end()), ": a/data_batch_2.bin has 5 bytes; expected: 30730000");
  EXPECT_EQ(message(tar_header("test_batch.bin", 8589934591) + tar_end()), ": test_batch.bin has 8589934591 bytes; expected: 30730000");
  EXPECT_EQ(message(tar_member("data_batch_1.bin", "", '2') + tar_end()), ": data_batch_1.bin is no regular file");
  const std::string one = tar_member("data_batch_1.bin", std::string(kBytes, '\0'));
  EXPECT_EQ(message(one + one + tar_end()), ": data_batch_1.bin stands in the archive twice");
}

TEST(Cifar10, the_real_pictures_have_the_known_balance_and_mean) {
  const char* data = std::getenv("GEMEL_CIFAR10");
  if (!data) GTEST_SKIP() << "GEMEL_CIFAR10 names no folder with CIFAR-10";
  const Splits splits = open(data);
  std::vector<int> counts(10);
  for (std::int64_t i = 0; i < splits.train->size(); ++i) ++counts[static_cast<std::size_t>(splits.train->label(i))];
  EXPECT_EQ(counts, std::vector<int>(10, 5000));
  double sum[3]{};
  std::vector<float> out(3072);
  for (std::int64_t i = 0; i < splits.train->size(); i += 10) {
    splits.train->copy(i, {}, out);
    for (std::size_t k = 0; k < out.size(); ++k) sum[k % 3] += static_cast<double>(out[k]);
  }
  // A tenth of the pictures, possibly encoded again: the means move by some thousandths.
  const double mean[]{0.4914, 0.4822, 0.4465};
  for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(sum[c] / (5000 * 1024), mean[c], 0.01);
}

}  // namespace
}  // namespace gemel::datasets
