// Files that git-lfs did not fetch: readers of users' data say what they are.
#include "engine/base/files/git_lfs.h"

#include <gtest/gtest.h>

#include "datasets/formats/npy.h"
#include "datasets/formats/tar.h"
#include "datasets/formats/tsv.h"
#include "datasets/formats/wav.h"
#include "datasets/texts/open_tokenizer.h"
#include "engine/base/error.h"
#include "engine/base/files/steady_file.h"
#include "frontends/models/config_file.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel {
namespace {

TEST(GitLfs, pointers_are_told_from_what_they_stand_for) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "pointer";
  testing::write_text(path, "version https://git-lfs.github.com/spec/v1\noid sha256:6a\nsize 231508\n");
  const auto told = [&](const auto& read) {
    const std::string message = testing::message_of<DataError>(read);
    EXPECT_NE(message.find(path.string()), std::string::npos) << message;
    EXPECT_NE(message.find("it is a pointer of git-lfs to a file of 231508 bytes; accepted: that file, which `git lfs pull` fetches"), std::string::npos)
        << message;
  };
  told([&] { datasets::open_tokenizer(path, datasets::Letters::lower); });
  told([&] { datasets::TsvFile("sst2", path); });
  told([&] { datasets::read_wav(path); });
  told([&] { datasets::count_samples(path); });
  told([&] { datasets::read_npy_header(SteadyFile(path)); });
  told([&] { models::ConfigFile config(path); });
  told([&] { datasets::TarReader(path, 1 << 20).next(); });
  EXPECT_TRUE(git_lfs_pointer("version 2 of a text").empty());
  EXPECT_NE(git_lfs_pointer("version https://git-lfs.github.com/spec/v1\n").find(" of ? bytes"), std::string::npos);
}

}  // namespace
}  // namespace gemel
