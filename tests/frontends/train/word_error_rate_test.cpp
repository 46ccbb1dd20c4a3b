// Transcripts: greedy decoding of connectionist temporal classification, and word errors.
#include "frontends/train/tasks/word_error_rate.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace gemel::train {
namespace {

using Ids = std::vector<std::int64_t>;

TEST(GreedyCtc, runs_become_one_label_and_blanks_part_them) {
  EXPECT_EQ(greedy_ctc(Ids{}), Ids{});
  EXPECT_EQ(greedy_ctc(Ids{0, 0, 0}), Ids{});
  EXPECT_EQ(greedy_ctc(Ids{1, 1, 2, 2, 2, 1}), (Ids{1, 2, 1}));
  EXPECT_EQ(greedy_ctc(Ids{0, 3, 3, 0, 3, 0, 0, 5}), (Ids{3, 3, 5}));
  EXPECT_EQ(greedy_ctc(Ids{7, 7, 4, 4, 7, 0}, 4), (Ids{7, 7, 0}));
}

void expect_errors(std::string_view reference, std::string_view hypothesis, std::int64_t errors, std::int64_t words) {
  const WordErrors found = word_errors(reference, hypothesis);
  EXPECT_EQ(found.errors, errors) << reference << " | " << hypothesis;
  EXPECT_EQ(found.words, words) << reference << " | " << hypothesis;
}

TEST(WordErrors, are_words_inserted_deleted_and_replaced) {
  expect_errors("the cat sat", "the cat sat", 0, 3);
  expect_errors("the cat sat", "the cat sat down", 1, 3);
  expect_errors("the cat sat", "cat sat", 1, 3);
  expect_errors("the cat sat", "the bat sat", 1, 3);
  expect_errors("a b c d e f", "b c x e f g", 3, 6);
  expect_errors("the cat sat", "", 3, 3);
  expect_errors("", "the cat", 2, 0);
  expect_errors("", "", 0, 0);
}

TEST(WordErrors, any_white_space_parts_words_and_letters_count) {
  expect_errors(" the\tcat\r\n  sat ", "the cat sat", 0, 3);
  expect_errors("The cat", "the cat", 1, 2);
  expect_errors("Straße über", "Strasse über", 1, 2);
}

TEST(WordErrors, the_rate_of_several_texts_is_that_of_all_their_words) {
  WordErrors all;
  for (const auto& [said, written] : {std::array{"a b c d", "a b c d"}, std::array{"e", "f g"}}) all += word_errors(said, written);
  EXPECT_EQ(all.rate(), 0.4);
  EXPECT_EQ(word_errors("a", "b c d").rate(), 3);
  EXPECT_EQ(WordErrors().rate(), 0);
  EXPECT_TRUE(std::isinf(word_errors("", "a").rate()));
}

}  // namespace
}  // namespace gemel::train
