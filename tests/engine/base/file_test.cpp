// Files that are read whole, and files that are written atomically.
#include "engine/base/files/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/files/descriptor.h"
#include "tests/support/faults/full_disk.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel {
namespace {

namespace fs = std::filesystem;
using testing::message_of, testing::read_text, testing::TemporaryFolder, testing::write_text;

std::size_t files_in(const fs::path& folder) { return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator())); }

TEST(File, the_whole_of_one_is_read) {
  const TemporaryFolder folder;
  const std::string text(3'000'000, 'x');  // more than is read at a time
  write_text(folder / "a", text);
  EXPECT_TRUE(as_text(read_whole(folder / "a")) == text);
  write_text(folder / "a", "");
  EXPECT_TRUE(read_whole(folder / "a").empty());
}

TEST(File, what_cannot_be_read_is_named_with_the_reason) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const std::string where = folder.path().string();
  EXPECT_EQ(message_of<DataError>([&] { read_whole(folder / "none"); }), "read: cannot open " + where + "/none: No such file or directory");
  EXPECT_EQ(message_of<DataError>([&] { read_whole(folder.path()); }), "read: cannot open " + where + ": it is a folder; accepted: a regular file");
  EXPECT_EQ(message_of<DataError>([&] { read_whole(folder / "pipe"); }),
            "read: cannot open " + where + "/pipe: it is no regular file; accepted: a regular file");
}

TEST(File, a_part_is_read_as_far_as_there_is_one) {
  const TemporaryFolder folder;
  write_text(folder / "a", "0123456789");
  const Descriptor file = open_regular("read", folder / "a", O_RDONLY);
  std::vector<std::byte> part(4);
  EXPECT_EQ(read_at(file.get(), 3, part), 4);
  EXPECT_EQ(as_text(part), "3456");
  EXPECT_EQ(read_at(file.get(), 8, part), 2);
  EXPECT_EQ(as_text(part), "8956");
  EXPECT_EQ(read_at(file.get(), 10, part), 0);
  EXPECT_TRUE(read_at(-1, 0, part) == -1 && errno == EBADF);
}

TEST(File, an_exception_while_writing_leaves_the_old_file_and_nothing_else) {
  const TemporaryFolder folder;
  write_text(folder / "a", "old");
  EXPECT_THROW(write_file_atomically(folder / "a",
                                     [](FileWriter& out) {
                                       out.write("new");
                                       throw UsageError("stop");
                                     }),
               UsageError);
  EXPECT_EQ(read_text(folder / "a"), "old");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(File, a_write_that_the_system_refuses_leaves_the_old_file) {
  const TemporaryFolder folder;
  write_text(folder / "a", "old");
  const std::string message = message_of<DataError>([&] {
    const testing::FilesUpTo limit(1000);
    write_file_atomically(folder / "a", [](FileWriter& out) { out.write(std::string(5000, 'x')); });
  });
  EXPECT_EQ(message, "write: cannot write " + (folder / "a").string() + ": File too large");
  EXPECT_EQ(read_text(folder / "a"), "old");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(File, what_is_no_file_is_refused_and_not_waited_for) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink("/dev/null", folder / "device");
  fs::create_symlink("pipe", folder / "link");
  for (const char* name : {"pipe", "device", "link"}) {
    const std::string refusal = "write: cannot write " + (folder / name).string() + ": it is no regular file; accepted: a regular file, or a name that is free";
    EXPECT_EQ(message_of<DataError>([&] { check_can_write(folder / name); }), refusal);
    EXPECT_EQ(message_of<DataError>([&] { write_file_atomically(folder / name, [](FileWriter& out) { out.write("x"); }); }), refusal);
    EXPECT_EQ(message_of<DataError>([&] { open_regular("log", folder / name, O_WRONLY | O_APPEND); }),
              "log: cannot open " + (folder / name).string() + ": it is no regular file; accepted: a regular file");
  }
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
}

TEST(File, a_descriptor_that_the_process_was_given_is_written_as_it_is) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  for (const std::string folder : {"/dev/fd/", "/proc/self/fd/"}) {
    const std::string path = folder + std::to_string(ends[1]);
    check_can_write(path);
    write_file_atomically(path, [](FileWriter& out) { out.write("x"); });
    char read = 0;
    ASSERT_EQ(::read(ends[0], &read, 1), 1);
    EXPECT_EQ(read, 'x');
  }
  const std::string closed = "/dev/fd/" + std::to_string(ends[0]);
  EXPECT_EQ(message_of<DataError>([&] { check_can_write(closed); }), "write: cannot write " + closed + ": Bad file descriptor");
  for (const int end : ends) ::close(end);
}

TEST(File, whose_name_becomes_a_folders_meanwhile_is_told_and_nothing_is_left_beside_it) {
  const TemporaryFolder folder;
  const std::string message = message_of<DataError>([&] {
    write_file_atomically(folder / "a", [&](FileWriter& out) {
      out.write("new");
      fs::create_directory(folder / "a");
    });
  });
  EXPECT_EQ(message, "write: cannot rename a file to " + (folder / "a").string() + ": Is a directory");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

/// For its lifetime this thread, and no other, is a user without rights.
class UserWithoutRights {
 public:
  UserWithoutRights() : is_one_(::geteuid() == 0 && ::syscall(SYS_setresuid, -1, 65534, -1) == 0) {}
  ~UserWithoutRights() {
    if (is_one_) ::syscall(SYS_setresuid, -1, 0, -1);
  }
  UserWithoutRights(const UserWithoutRights&) = delete;
  UserWithoutRights& operator=(const UserWithoutRights&) = delete;
  bool is_one() const { return is_one_; }

 private:
  bool is_one_;
};

TEST(File, of_another_user_in_a_sticky_folder_is_refused_beforehand) {
  const TemporaryFolder folder;
  write_text(folder / "a", "old");
  ASSERT_EQ(::chmod(folder.path().c_str(), 01777), 0);
  const UserWithoutRights user;
  if (!user.is_one() || ::faccessat(AT_FDCWD, (folder / "a").c_str(), F_OK, AT_EACCESS) != 0)
    GTEST_SKIP() << "only root can be another user, where that one can reach the folder";
  const std::string refusal = "write: cannot write " + (folder / "a").string() +
                              ": it is another user's, and its folder is sticky; accepted: a file of one's own, or a name that is free";
  EXPECT_EQ(message_of<DataError>([&] { check_can_write(folder / "a"); }), refusal);
  EXPECT_EQ(message_of<DataError>([&] { write_file_atomically(folder / "a", [](FileWriter&) { ADD_FAILURE() << "it is asked for what cannot be kept"; }); }),
            refusal);
  for (const char* text : {"new", "and again"}) write_file_atomically(folder / "b", [text](FileWriter& out) { out.write(text); });
  EXPECT_EQ(read_text(folder / "b"), "and again");
  EXPECT_EQ(read_text(folder / "a"), "old");
  EXPECT_EQ(files_in(folder.path()), 2u);
}

TEST(File, a_link_is_followed_and_the_mode_is_kept) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "real");
  write_text(folder / "real/a", "old");
  ASSERT_EQ(::chmod((folder / "real/a").c_str(), 0640), 0);
  fs::create_symlink("real/a", folder / "link");
  write_file_atomically(folder / "link", [](FileWriter& out) { out.write("new"); });
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_text(folder / "real/a"), "new");
  struct stat status {};
  ASSERT_EQ(::stat((folder / "real/a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
}

TEST(File, a_link_to_what_is_not_there_yet_makes_it) {
  const TemporaryFolder folder;
  fs::create_symlink("a", folder / "link");
  fs::create_symlink(folder / "link", folder / "link to link");
  write_file_atomically(folder / "link to link", [](FileWriter& out) { out.write("new"); });
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_text(folder / "a"), "new");
  fs::create_symlink("ring", folder / "ring");
  EXPECT_EQ(message_of<DataError>([&] { write_file_atomically(folder / "ring", [](FileWriter& out) { out.write("new"); }); }),
            "write: cannot follow the link " + (folder / "ring").string() + ": Too many levels of symbolic links");
  EXPECT_EQ(message_of<DataError>([&] { check_can_write(folder / "ring"); }),
            "write: cannot follow the link " + (folder / "ring").string() + ": Too many levels of symbolic links");
}

TEST(File, a_folder_that_does_not_exist_is_named) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of<DataError>([&] { write_file_atomically(folder / "none/a", [](FileWriter&) {}); }),
            "write: cannot create a file for " + (folder / "none/a").string() + ": No such file or directory");
  EXPECT_EQ(message_of<DataError>([&] { write_file_atomically(folder.path(), [](FileWriter&) {}); }),
            "write: cannot write " + folder.path().string() + ": Is a directory");
}

TEST(File, what_a_killed_writer_left_is_removed_and_a_living_ones_file_is_not) {
  const TemporaryFolder folder;
  write_text(folder / ".gemel-1.tmp", "half a file");
  write_text(folder / "notes.tmp", "of somebody else");
  write_file_atomically(folder / "a", [&](FileWriter& outer) {
    outer.write("a");
    write_file_atomically(folder / "b", [](FileWriter& out) { out.write("b"); });
    EXPECT_EQ(files_in(folder.path()), 3u) << "b, the notes and what becomes a";
  });
  EXPECT_EQ(read_text(folder / "a"), "a");
  EXPECT_EQ(files_in(folder.path()), 3u);
  EXPECT_TRUE(fs::exists(folder / "notes.tmp"));
}

TEST(File, that_a_file_can_be_written_is_found_beforehand) {
  const TemporaryFolder folder;
  write_text(folder / "a", "old");
  check_can_write(folder / "a");
  check_can_write(folder / "b");
  EXPECT_EQ(read_text(folder / "a"), "old");
  EXPECT_EQ(files_in(folder.path()), 1u);
  EXPECT_EQ(message_of<DataError>([&] { check_can_write(folder / "none/a"); }),
            "write: cannot create a file for " + (folder / "none/a").string() + ": No such file or directory");
  EXPECT_EQ(message_of<DataError>([&] { check_can_write(folder.path()); }), "write: cannot write " + folder.path().string() + ": Is a directory");
  const fs::path too_long = folder.path() / std::string(300, 'a');
  EXPECT_EQ(message_of<DataError>([&] { check_can_write(too_long); }), "write: cannot write " + too_long.string() + ": File name too long");
}

TEST(File, what_is_there_is_told_apart_from_what_cannot_be_examined) {
  const TemporaryFolder folder;
  write_text(folder / "a", "");
  fs::create_symlink("nowhere", folder / "link");
  EXPECT_TRUE(is_there(folder / "a"));
  EXPECT_FALSE(is_folder(folder / "a"));
  EXPECT_TRUE(is_folder(folder.path()));
  for (const char* nothing : {"b", "b/c", "a/c", "link"}) {
    EXPECT_FALSE(is_there(folder / nothing)) << nothing;
    EXPECT_FALSE(is_folder(folder / nothing)) << nothing;
  }
  const fs::path too_long = folder.path() / std::string(300, 'a');
  for (bool (*examine)(const fs::path&) : {is_there, is_folder})
    EXPECT_EQ(message_of<DataError>([&] { examine(too_long); }), "read: cannot examine " + too_long.string() + ": File name too long");
}

}  // namespace
}  // namespace gemel
