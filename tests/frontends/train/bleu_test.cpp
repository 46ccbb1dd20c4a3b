// BLEU: numbers that sacrebleu 2 gives (tokenize "none", smooth_method "none"), and what must hold of any corpus.
#include "frontends/train/tasks/bleu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace gemel::train {
namespace {

struct Pair {
  std::string hypothesis, reference;
};
BleuCounts of(const std::vector<Pair>& corpus) {
  BleuCounts out;
  for (const Pair& p : corpus) out += bleu_counts(p.reference, p.hypothesis);
  return out;
}

using Four = std::array<std::int64_t, 4>;

TEST(Bleu, counts_runs_of_the_paper_as_often_as_the_reference_has_them) {
  const BleuCounts c = of({{"the the the the the the the", "the cat is on the mat"}});  // the paper's section 2.1
  EXPECT_EQ(c.matches, (Four{2, 0, 0, 0}));
  EXPECT_EQ(c.runs, (Four{7, 6, 5, 4}));
  EXPECT_EQ(c.score(), 0);
}

/// Of doubles in another order: 1e-12.
TEST(Bleu, gives_sacrebleus_numbers) {
  EXPECT_NEAR(of({{"the cat is on the mat today", "the cat sat on the mat today"}}).score(), 0.4889230224349009, 1e-12);
  EXPECT_NEAR(of({{"the cat is on the mat", "the cat is on the red mat"}}).score(), 0.6731821382417488, 1e-12) << "too short by a word of seven";
  EXPECT_NEAR(of({{"the cat is on the red mat", "the cat is on the mat"}}).score(), 0.6434588841607617, 1e-12);
  const BleuCounts both = of({{"It is a guide to action which ensures that the military always obeys the commands of the party",
                               "It is a guide to action that ensures that the military will forever heed Party commands"},
                              {"he read the book because he was interested in world history", "he was interested in world history because he read the book"}});
  EXPECT_EQ(both.matches, (Four{22, 17, 12, 8}));
  EXPECT_EQ(both.runs, (Four{29, 27, 25, 23}));
  EXPECT_EQ(both.hypothesis_words, 29);
  EXPECT_EQ(both.reference_words, 27);
  EXPECT_NEAR(both.score(), 0.5314082679468588, 1e-12);
  EXPECT_NEAR(of({{"a b c d e f", "a b c d e g"}, {"", "p q"}, {"x y", "x y z"}}).score(), 0.5340584268157061, 1e-12) << "a sentence may be empty";
}

TEST(Bleu, is_the_geometric_mean_of_four_precisions_and_a_penalty) {
  // By hand: precisions 9/10, 7/8, 5/6, 3/4, as many words as the references.
  EXPECT_NEAR(of({{"a b c d", "a b c d"}, {"e f g h i j", "e f g h i k"}}).score(), std::pow(9.0 / 10 * 7 / 8 * 5 / 6 * 3 / 4, 0.25), 1e-12);
  // All that is written is right; four words of six.
  EXPECT_NEAR(of({{"a b c d", "a b c d e f"}}).score(), std::exp(1 - 6.0 / 4), 1e-12);
}

TEST(Bleu, is_1_of_the_same_and_0_of_nothing_in_common_or_nothing_at_all) {
  EXPECT_EQ(of({{"a  b\tc d \n", "a b c d"}, {"e", "e"}}).score(), 1);
  EXPECT_EQ(of({{"a b c d e", "f g h i j"}}).score(), 0);
  EXPECT_EQ(of({{"a b c", "a b c"}}).score(), 0) << "no run of four";
  EXPECT_EQ(of({{"A b c d", "a b c d"}}).score(), 0) << "letters' case counts";
  EXPECT_EQ(of({{"", "a"}}).score(), 0);
  EXPECT_EQ(of({{"a", ""}}).score(), 0);
  EXPECT_EQ(of({}).score(), 0);
}

TEST(Bleu, of_a_corpus_does_not_depend_on_how_it_is_cut) {
  const std::vector<Pair> corpus{{"a b c d e", "a b c d f"}, {"q a b", "a b"}, {"b c d e f g", "b c d e f"}, {"", "z"}};
  const BleuCounts whole = of(corpus);
  EXPECT_GT(whole.score(), 0);
  for (std::size_t cut = 0; cut <= corpus.size(); ++cut) {
    const auto middle = corpus.begin() + static_cast<std::ptrdiff_t>(cut);
    BleuCounts parts = of({middle, corpus.end()});
    parts += of({corpus.begin(), middle});
    EXPECT_EQ(parts.matches, whole.matches);
    EXPECT_EQ(parts.score(), whole.score()) << cut;
  }
}

}  // namespace
}  // namespace gemel::train
