// Running text in blocks of tokens, from files whole and damaged.
#include "datasets/texts/token_blocks.h"

#include <gtest/gtest.h>

#include <map>

#include "datasets/texts/open_tokenizer.h"
#include "engine/base/error.h"
#include "tests/support/datasets/host_elements.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::datasets {
namespace {

using testing::elements;
using testing::message_of;
using Ids = std::vector<std::int64_t>;

TEST(TokenBlocks, have_each_token_as_a_label_once) {
  TokenBlocks blocks({"text", 100, 4}, {10, 11, 12, 13, 14, 15, 16});
  EXPECT_EQ(blocks.size(), 2);
  const std::int64_t both[] = {1, 0};
  const auto tensors = blocks.tensors(both);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "ids");
  EXPECT_EQ(tensors[0].spec, i64({2, 4}));
  EXPECT_EQ(elements<std::int64_t>(tensors[0]), (Ids{14, 15, 0, 0, 10, 11, 12, 13}));
  EXPECT_EQ(tensors[1].name, "labels");
  EXPECT_EQ(elements<std::int64_t>(tensors[1]), (Ids{15, 16, -1, -1, 11, 12, 13, 14}));
  EXPECT_EQ(TokenBlocks({"text", 100, 3}, {1, 2, 3, 4, 5, 6, 7}).size(), 2) << "no block without a label";
  blocks.keep(1);
  EXPECT_EQ(blocks.size(), 1);
}

TEST(TokenBlocks, are_made_of_files) {
  const testing::TemporaryFolder folder;
  const auto tokenizer = open_tokenizer(std::filesystem::path(GEMEL_SOURCE_DIR) / "tests/data/tokenizers");
  EXPECT_EQ(message_of<DataError>([&] { open_running_text(*tokenizer, {.folder = folder.path()}); }),
            "read: cannot open " + (folder / "train.txt").string() + ": No such file or directory");
  const std::string text = "The kernels of a pipeline.\n\nThe kernels of another.\n";
  testing::write_text(folder / "train.txt", text);
  TokenBlockSplits splits = open_running_text(*tokenizer, {.folder = folder.path(), .length = 3});
  EXPECT_FALSE(splits.validation);
  EXPECT_EQ(splits.train->classes(), tokenizer->vocabulary().size());
  const Ids tokens = tokenizer->encode(text);
  const std::int64_t first[] = {0};
  EXPECT_EQ(elements<std::int64_t>(splits.train->tensors(first)[0]), Ids(tokens.begin(), tokens.begin() + 3));
  EXPECT_EQ(splits.train->size(), (std::ssize(tokens) + 1) / 3);
  testing::write_text(folder / "dev.txt", "kernels of");
  splits = open_running_text(*tokenizer, {.folder = folder.path(), .length = 3, .limit = 2});
  EXPECT_EQ(splits.train->size(), 2);
  ASSERT_TRUE(splits.validation);
  EXPECT_EQ(splits.validation->size(), 1);
  testing::write_text(folder / "dev.txt", "a\xff");
  EXPECT_EQ(message_of<DataError>([&] { open_running_text(*tokenizer, {.folder = folder.path()}); }),
            "text: " + (folder / "dev.txt").string() + ": text: byte 1 (0xff) is not UTF-8");
  testing::write_text(folder / "dev.txt", "a");
  EXPECT_EQ(message_of<DataError>([&] { open_running_text(*tokenizer, {.folder = folder.path()}); }),
            "text: " + (folder / "dev.txt").string() + " has 1 tokens; accepted: two or more");
}

TEST(TokenBlocks, that_are_made_up_follow_mostly_from_the_token_before) {
  const TokenBlockSplits splits = synthetic_tokens({.vocabulary = 300, .length = 50, .samples = 40});
  EXPECT_EQ(splits.train->size(), 40);
  EXPECT_EQ(splits.validation->size(), 40);
  Ids all;
  for (std::int64_t i = 0; i < 40; ++i) all.push_back(i);
  const auto tensors = splits.train->tensors(all);
  const Ids ids = elements<std::int64_t>(tensors[0]), labels = elements<std::int64_t>(tensors[1]);
  std::map<std::int64_t, std::map<std::int64_t, int>> after;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(labels[i] >= 0 && labels[i] < 300);
    ++after[ids[i]][labels[i]];
  }
  int likeliest = 0;
  for (const auto& [id, counts] : after) {
    int most = 0;
    for (const auto& [label, count] : counts) most = std::max(most, count);
    likeliest += most;
  }
  EXPECT_NEAR(likeliest / 2000.0, 0.75, 0.08);
  EXPECT_NE(elements<std::int64_t>(splits.validation->tensors(all)[0]), ids);
}

}  // namespace
}  // namespace gemel::datasets
