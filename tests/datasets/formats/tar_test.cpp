// Tar archives, plain and compressed, whole and damaged.
#include "datasets/formats/tar.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/base/error.h"
#include "tests/support/formats/tar_archive.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::datasets {
namespace {

using testing::message_of;
using namespace gemel::testing;

constexpr std::int64_t kLimit = 1 << 20;

struct Read {
  std::string name, content;
  bool is_file;
};

/// All members; the content of regular files only.
std::vector<Read> read_all(const std::filesystem::path& path, std::int64_t limit = kLimit) {
  TarReader archive(path, limit);
  std::vector<Read> members;
  while (const auto member = archive.next()) {
    std::string content(static_cast<std::size_t>(member->is_file ? member->bytes : 0), '\0');
    if (member->is_file) archive.read(std::as_writable_bytes(std::span(content)));
    members.push_back({member->name, content, member->is_file});
  }
  return members;
}

TEST(Tar, members_of_every_kind_are_listed_with_their_content) {
  const TemporaryFolder folder;
  const std::string long_name = "folder/" + std::string(300, 'n');
  const std::string archive =
      (tar_member("folder/", "", '5') + tar_member("folder/short", "content") + tar_member("empty", "") + tar_member("block", std::string(512, 'b')) +
       tar_member("name", "prefixed", '0', "some/folder") + tar_member("link", "", '2') + tar_member("././@LongLink", long_name + '\0', 'L') +
       tar_member("nnn", "gnu") + tar_member("global", pax_record("comment", "x"), 'g') +
       tar_member("attributes", pax_record("path", long_name) + pax_record("size", "3") + pax_record("mtime", "1"), 'x') + tar_header("nnn", 0) + "pax" +
       std::string(509, '\0') + tar_member("last", "end", '\0') + tar_end());
  const std::vector<Read> expected{{"folder/", "", false},
                                   {"folder/short", "content", true},
                                   {"empty", "", true},
                                   {"block", std::string(512, 'b'), true},
                                   {"some/folder/name", "prefixed", true},
                                   {"link", "", false},
                                   {long_name, "gnu", true},
                                   {long_name, "pax", true},
                                   {"last", "end", true}};
  write_text(folder / "a.tar.gz", gzip(archive));
  write_text(folder / "a.tar", archive);
  for (const char* name : {"a.tar.gz", "a.tar"}) {
    const std::vector<Read> members = read_all(folder / name);
    ASSERT_EQ(members.size(), expected.size()) << name;
    for (std::size_t i = 0; i < members.size(); ++i) {
      EXPECT_EQ(members[i].name, expected[i].name);
      EXPECT_EQ(members[i].content, expected[i].content) << members[i].name;
      EXPECT_EQ(members[i].is_file, expected[i].is_file) << members[i].name;
    }
  }
}

TEST(Tar, content_that_nobody_reads_is_skipped) {
  const TemporaryFolder folder;
  write_text(folder / "a", gzip(tar_member("a", std::string(100000, 'x')) + tar_member("b", "y") + tar_end()));
  TarReader archive(folder / "a", kLimit);
  EXPECT_EQ(archive.next()->name, "a");
  EXPECT_EQ(archive.next()->name, "b");
  EXPECT_FALSE(archive.next().has_value());
}

struct HostileArchive {
  const char* title;
  std::string content;
  const char* expected;
};

std::string with(std::string text, std::size_t position, char value) {
  text[position] = value;
  return text;
}

std::vector<HostileArchive> hostile_archives() {
  const std::string member = tar_member("name", "content"), whole = gzip(member + tar_end());
  return {
      {"empty", "", "no archive of 0 bytes"},
      {"first_of_the_magic", "\x1f", "no gzip file of 1 bytes: it does not start with 1f 8b"},
      {"neither", std::string(2000, 'x'), "no tar archive, nor one compressed by gzip"},
      {"plain_ends_in_a_member", tar_header("big", 5000) + std::string(100, 'x'), "ends inside big: 100 bytes were found; expected: 5000"},
      {"plain_second_header_changed", member + with(member, 0, 'N'), "the checksum of the header after name is wrong"},
      {"only_magic", "\x1f\x8b", "truncated: it ends at its byte 2"},
      {"half", whole.substr(0, whole.size() / 2), "truncated: it ends at its byte"},
      {"without_its_checksum", whole.substr(0, whole.size() - 4), "truncated"},
      {"wrong_checksum", with(whole, whole.size() - 8, static_cast<char>(whole[whole.size() - 8] ^ 1)), "corrupt (incorrect data check)"},
      {"wrong_block", with(whole, 10, '\x07'), "corrupt"},
      {"followed_by_more", whole + "more", "bytes follow the end of the gzip stream"},
      {"bomb", gzip(tar_member("zeros", std::string(2 << 20, '\0')) + tar_end()), "inflates to more than 1048576 bytes; refused"},
      {"no_tar", gzip(std::string(2000, 'x')), "the checksum of the header after the archive is wrong"},
      {"short_header", gzip("short"), "ends inside a header, after 5 of 512 bytes"},
      {"changed_header", gzip(with(member, 0, 'N') + tar_end()), "the checksum of the header after the archive is wrong"},
      {"second_header_changed", gzip(member + with(member, 0, 'N')), "the checksum of the header after name is wrong"},
      {"ends_in_a_member", gzip(tar_header("big", 5000) + std::string(100, 'x')), "ends inside big: 100 bytes were found; expected: 5000"},
      {"name_too_long", gzip(tar_member("l", std::string(70000, 'n'), 'L') + member), "a name takes 70000 bytes; accepted: up to 65536"},
      {"attributes_without_end", gzip(tar_member("x", "99 path=a\n", 'x') + member), "the attributes in x are malformed"},
      {"attributes_of_length_0", gzip(tar_member("x", "0 path=a\n", 'x') + member), "malformed"},
      {"attributes_with_a_wrong_size", gzip(tar_member("x", pax_record("size", "-1"), 'x') + member), "malformed"},
      {"attributes_with_a_huge_size", gzip(tar_member("x", pax_record("size", "9223372036854775807"), 'x') + member),
       "name is given as 9223372036854775807 bytes; accepted: up to 1099511627776"},
  };
}

class TarHostile : public ::testing::TestWithParam<HostileArchive> {};

TEST_P(TarHostile, archive_is_refused_with_its_name_and_the_reason) {
  const TemporaryFolder folder;
  write_text(folder / "a", GetParam().content);
  const std::string message = message_of<DataError>([&] { read_all(folder / "a"); });
  EXPECT_NE(message.find((folder / "a").string() + ": "), std::string::npos) << message;
  EXPECT_NE(message.find(GetParam().expected), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(, TarHostile, ::testing::ValuesIn(hostile_archives()), [](const auto& tested) { return std::string(tested.param.title); });

TEST(Tar, a_size_that_is_no_octal_number_is_refused) {
  const TemporaryFolder folder;
  std::string header = tar_header("name", 8);
  // '9' instead of '0', and the checksum made to match.
  header[124] = '9';
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 6, fmt::format("{:06o}", sum));
  write_text(folder / "a", gzip(header + tar_end()));
  EXPECT_EQ(message_of<DataError>([&] { read_all(folder / "a"); }),
            "tar: " + (folder / "a").string() + ": the size in the header after the archive is no octal number");
}

}  // namespace
}  // namespace gemel::datasets
