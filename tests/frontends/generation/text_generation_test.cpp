// What comes of logits: the likeliest token, tokens drawn by temperature and among the likeliest, and text of their bytes.
#include "frontends/generation/text_generation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "datasets/formats/utf8_stream.h"
#include "engine/base/error.h"
#include "tests/support/message_of.h"

namespace gemel::train {
namespace {

using testing::message_of;
using Logits = std::vector<float>;

std::map<std::int64_t, double> shares(const Sampling& sampling, const Logits& logits) {
  constexpr int kDraws = 20000;
  Sampler sampler(sampling);
  std::map<std::int64_t, double> out;
  for (int i = 0; i < kDraws; ++i) out[sampler(logits)] += 1.0 / kDraws;
  return out;
}

TEST(Sampler, takes_the_first_of_the_likeliest_at_temperature_0) {
  Sampler sampler({});
  EXPECT_EQ(sampler(Logits{0, 3, 1, 3}), 1);
  EXPECT_EQ(sampler(Logits{-5}), 0);
}

TEST(Sampler, draws_with_the_probabilities_of_the_softmax) {
  // Deviations of 20 000 draws stay below 1 / sqrt(20 000) = 0.007.
  const auto one = shares({.temperature = 1}, {0, std::log(2.0f), 0});
  EXPECT_NEAR(one.at(0), 0.25, 0.015);
  EXPECT_NEAR(one.at(1), 0.5, 0.015);
  const auto half = shares({.temperature = 0.5}, {0, std::log(2.0f), 0});
  EXPECT_NEAR(half.at(1), 4.0 / 6, 0.015);
  const auto cold = shares({.temperature = 1e-4}, {0, 1, 0});
  EXPECT_EQ(cold.size(), 1u);
}

TEST(Sampler, draws_among_the_likeliest_k) {
  const auto two = shares({.temperature = 1, .top_k = 2}, {5, 1, 5, 4.9f});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_NEAR(two.at(0), 0.5, 0.015);
  EXPECT_NEAR(two.at(2), 0.5, 0.015);
  const auto of_equals = shares({.temperature = 1, .top_k = 2}, {1, 1, 1});
  EXPECT_TRUE(of_equals.contains(0) && of_equals.contains(1) && of_equals.size() == 2) << "the first of equals";
  EXPECT_EQ(shares({.temperature = 1, .top_k = 9}, {1, 1, 1}).size(), 3u);
}

TEST(Sampler, draws_the_same_with_the_same_seed) {
  const auto drawn = [](std::uint64_t seed) {
    Sampler sampler({.temperature = 1, .seed = seed});
    std::vector<std::int64_t> out;
    for (int i = 0; i < 50; ++i) out.push_back(sampler(Logits{0, 0, 0, 0}));
    return out;
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}

TEST(Sampler, refuses_what_is_no_temperature_and_no_logit) {
  EXPECT_EQ(message_of<UsageError>([] { Sampler({.temperature = -1}); }), "sampling: the temperature is -1; accepted: 0 or more");
  EXPECT_EQ(message_of<UsageError>([] { Sampler({.temperature = 1, .top_k = -1}); }), "sampling: top_k is -1; accepted: 0 or more");
  EXPECT_EQ(message_of<DataError>([] {
              Sampler({})(Logits{0, std::numeric_limits<float>::quiet_NaN()});
            }),
            "sampling: a logit is not finite; accepted: weights that are");
}

/// What a text gives that comes byte by byte.
std::string in_pieces(std::string_view bytes) {
  datasets::Utf8Pieces pieces;
  std::string out;
  for (const char byte : bytes) out += pieces.add(std::string_view(&byte, 1));
  return out + pieces.end();
}

TEST(Utf8Pieces, hold_back_a_character_until_it_is_whole) {
  datasets::Utf8Pieces pieces;
  EXPECT_EQ(pieces.add("a\xe4"), "a");
  EXPECT_EQ(pieces.add("\xb8"), "");
  EXPECT_EQ(pieces.add("\xad!"), "中!");
  EXPECT_EQ(pieces.add("\xf0\x9f"), "");
  EXPECT_EQ(pieces.end(), "\ufffd");
  EXPECT_EQ(pieces.end(), "");
  const std::string text = "é ß 中文 🙂 \U0010ffff \u0800 \ud7ff \x7f";
  EXPECT_EQ(in_pieces(text), text);
}

TEST(Utf8Pieces, replace_what_is_none_as_python_does) {
  // Python 3: bytes.decode("utf-8", "replace")
  EXPECT_EQ(in_pieces("a\x80z"), "a\ufffdz");
  EXPECT_EQ(in_pieces("\xc0\xaf"), "\ufffd\ufffd");
  EXPECT_EQ(in_pieces("\xe4\xb8z"), "\ufffdz");
  EXPECT_EQ(in_pieces("\xe0\x80\x80"), "\ufffd\ufffd\ufffd");
  EXPECT_EQ(in_pieces("\xed\xa0\x80"), "\ufffd\ufffd\ufffd");
  EXPECT_EQ(in_pieces("\xf0\x9f\x99\xf0\x9f\x99\x82"), "\ufffd🙂");
  EXPECT_EQ(in_pieces("\xf4\x90\x80\x80"), "\ufffd\ufffd\ufffd\ufffd");
  EXPECT_EQ(in_pieces("\xff\xfe"), "\ufffd\ufffd");
}

}  // namespace
}  // namespace gemel::train
