// Tokenizers against the numbers that Hugging Face's give (tests/data/tokenizers/make.py), back to the same bytes, and on damaged files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "datasets/formats/unicode.h"
#include "datasets/texts/byte_pair_encoding.h"
#include "datasets/texts/wordpiece.h"
#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "tests/support/formats/tokenizer_files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::datasets {
namespace {

using testing::kTokenizerData, testing::message_of, testing::tokenizer_texts;
using Ids = std::vector<std::int64_t>;

std::vector<Ids> stored(const char* name) {
  std::ifstream in(kTokenizerData / name);
  std::vector<Ids> out;
  for (std::string line; std::getline(in, line);) {
    std::istringstream numbers(line);
    out.emplace_back(std::istream_iterator<std::int64_t>(numbers), std::istream_iterator<std::int64_t>());
  }
  return out;
}

void expect_stored(const Tokenizer& tokenizer, const char* name) {
  const std::vector<std::string> texts = tokenizer_texts();
  const std::vector<Ids> expected = stored(name);
  ASSERT_GE(texts.size(), 2000u);
  ASSERT_EQ(texts.size(), expected.size());
  for (std::size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(tokenizer.encode(texts[i]), expected[i]) << "string " << i << ": " << nlohmann::json(texts[i]).dump(-1, ' ', true);
}

TEST(Tokenizers, uncased_wordpiece_gives_the_numbers_of_hugging_faces) {
  const char* const vocabulary = std::getenv("GEMEL_BERT_VOCAB");
  if (!vocabulary) GTEST_SKIP() << "GEMEL_BERT_VOCAB names no vocab.txt of bert-base-uncased";
  expect_stored(WordPiece(vocabulary), "uncased.ids");
}

TEST(Tokenizers, cased_wordpiece_gives_the_numbers_of_hugging_faces) { expect_stored(WordPiece(kTokenizerData / "cased.txt", Letters::kept), "cased.ids"); }

TEST(Tokenizers, byte_pairs_give_the_numbers_of_hugging_faces_and_back_the_same_bytes) {
  const BytePairs pairs(kTokenizerData / "vocab.json", kTokenizerData / "merges.txt");
  expect_stored(pairs, "bpe.ids");
  for (const std::string& text : tokenizer_texts()) EXPECT_EQ(pairs.decode(pairs.encode(text)), text);
}

TEST(Tokenizers, cut_texts_and_pairs_as_hugging_faces_do) {
  const WordPiece tokenizer(kTokenizerData / "cased.txt", Letters::kept);
  std::ifstream in(kTokenizerData / "pairs.json");
  const nlohmann::json cases = nlohmann::json::parse(in);
  ASSERT_GE(cases.size(), 300u);
  for (const auto& c : cases) {
    const auto first = c[0].get<std::string>(), second = c[1].is_null() ? std::string() : c[1].get<std::string>();
    const Tokens found = tokenizer.for_model(first, c[1].is_null() ? std::nullopt : std::optional<std::string_view>(second), c[2].get<std::int64_t>());
    EXPECT_EQ(found.ids, c[3].get<Ids>()) << c.dump(-1, ' ', true);
    EXPECT_EQ(found.types, c[4].get<Ids>()) << c.dump(-1, ' ', true);
  }
  EXPECT_EQ(message_of<UsageError>([&] { tokenizer.for_model("a", "b", 2); }),
            "tokenizer: at most 2 tokens are wanted; accepted: 3 or more, for [CLS] and [SEP]");
}

TEST(Tokenizers, refuse_a_text_that_is_not_utf_8) {
  const WordPiece tokenizer(kTokenizerData / "cased.txt", Letters::kept);
  const BytePairs pairs(kTokenizerData / "vocab.json", kTokenizerData / "merges.txt");
  for (const char* text : {"ab\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe4\xb8"}) {
    EXPECT_NE(message_of<DataError>([&] { tokenizer.encode(text); }).find("is not UTF-8"), std::string::npos);
    EXPECT_NE(message_of<DataError>([&] { pairs.encode(text); }).find("is not UTF-8"), std::string::npos);
  }
  EXPECT_EQ(message_of<DataError>([&] { tokenizer.encode("ab\xff"); }), "text: byte 2 (0xff) is not UTF-8");
}

TEST(Tokenizers, say_what_is_wrong_with_their_files) {
  const testing::TemporaryFolder folder;
  const std::string lines = (folder / "vocab.txt").string(), json = (folder / "vocab.json").string(), merges = (folder / "merges.txt").string();
  const auto of_lines = [&](std::string_view content) {
    testing::write_text(lines, content);
    return message_of<DataError>([&] { WordPiece{lines}; });
  };
  EXPECT_EQ(message_of<DataError>([&] { WordPiece{lines}; }), "read: cannot open " + lines + ": No such file or directory");
  EXPECT_EQ(of_lines(""), "vocabulary: " + lines + " is empty; accepted: a token a line");
  EXPECT_EQ(of_lines("[PAD]\n[CLS]\n[SEP]\na\n"), "vocabulary: " + lines + " has no [UNK]; accepted: BERT's vocabularies, with [UNK], [CLS], [SEP] and [PAD]");
  EXPECT_EQ(of_lines("\xef\xbb\xbf\n \n\n"), "vocabulary: " + lines + " is empty; accepted: a token a line");
  EXPECT_EQ(of_lines("[PAD]\n\xff\n"), "vocabulary: " + lines + ", line 2: text: byte 0 (0xff) is not UTF-8");
  const auto of_json = [&](std::string_view vocabulary, std::string_view order = "") {
    testing::write_text(json, vocabulary);
    testing::write_text(merges, order);
    return message_of<DataError>([&] { BytePairs(json, merges); });
  };
  const std::string accepted = "; accepted: an object of tokens and their numbers, from 0 on";
  EXPECT_EQ(of_json("{"), "vocabulary: " + json + ": it is no JSON object" + accepted);
  EXPECT_EQ(of_json("{}"), "vocabulary: " + json + ": it is empty" + accepted);
  EXPECT_EQ(of_json(R"({"a":0,"b":2})"), "vocabulary: " + json + ": 'b' has the number 2 of 2 tokens" + accepted);
  EXPECT_EQ(of_json(R"({"a":0,"b":0})"), "vocabulary: " + json + ": 'b' has the number 0, as another one has" + accepted);
  const std::string deep = "{\"a\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}";
  EXPECT_EQ(of_json(deep), "vocabulary: " + json + ": 'a' has the number an array of 1 tokens" + accepted);
  EXPECT_EQ(of_json(R"({"a":0.5})"), "vocabulary: " + json + ": 'a' has the number 0.5 of 1 tokens" + accepted);
  EXPECT_EQ(of_json(R"({"a":0,"b":1,"ab":2})", "#version: 0.2\na b c\n"), "merges: " + merges + ", line 2: 'a b c'; accepted: two tokens with a space between");
  EXPECT_EQ(of_json(R"({"a":0,"b":1})", "a b\n"),
            "merges: " + merges + ", line 1: the vocabulary has no token 'ab'; accepted: merges of its tokens into its tokens");
  const BytePairs pairs(kTokenizerData / "vocab.json", kTokenizerData / "merges.txt");
  EXPECT_EQ(message_of<UsageError>([&] { pairs.decode({-1}); }),
            fmt::format("vocabulary: there is no token -1; accepted: 0 to {}", pairs.vocabulary().size() - 1));
}

TEST(Tokenizers, take_lists_of_tokens_as_they_are_found) {
  const testing::TemporaryFolder folder;
  const auto tokenizer = [&](std::string_view lines) {
    testing::write_text(folder / "vocab.txt", lines);
    return WordPiece(folder / "vocab.txt");
  };
  const WordPiece twice = tokenizer("[PAD]\n[UNK]\na\n[CLS]\n[SEP]\na\nb\na \n");
  EXPECT_EQ(twice.encode("a b"), (Ids{7, 6})) << "of a token that is there several times the last one counts";
  EXPECT_EQ(twice.vocabulary().size(), 8);
  EXPECT_EQ(twice.decode({2, 5}), "a a");
  const WordPiece blank = tokenizer("[PAD]\n[UNK]\n\n[CLS]\n \xe2\x80\xa8\n[SEP]\n   \na\n\n \n\n");
  EXPECT_EQ(blank.encode("a"), Ids{7}) << "blank lines and those of white space have numbers, too";
  EXPECT_EQ(blank.vocabulary().size(), 8) << "but at the end";
  for (const char* same : {"\xef\xbb\xbf[PAD]\n[UNK]\n[CLS]\n[SEP]\na", "[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\na\r\n", "[PAD]\r[UNK]\r[CLS]\r[SEP]\ra\r"}) {
    const WordPiece read = tokenizer(same);
    EXPECT_EQ(read.encode("[PAD] a"), (Ids{0, 4}));
    EXPECT_EQ(read.vocabulary().size(), 5);
  }
}

TEST(Tokenizers, take_merges_as_they_are_found) {
  const testing::TemporaryFolder folder;
  testing::write_text(folder / "vocab.json", R"({"a":0,"b":1,"c":2,"ab":3,"bc":4})");
  const auto ids = [&](std::string_view merges) {
    testing::write_text(folder / "merges.txt", merges);
    return BytePairs(folder / "vocab.json", folder / "merges.txt").encode("abc");
  };
  EXPECT_EQ(ids("a b\nb c\n"), (Ids{3, 2}));
  EXPECT_EQ(ids("a b\nb c\na b\n"), (Ids{0, 4})) << "of a pair that is there twice the last one counts";
  for (const char* same : {"\xef\xbb\xbf#version: 0.2\nb c\na b\n", "#version: 0.2\r\nb c\r\na b\r\n", "#version: 0.2\rb c\ra b\r", "b c\n\na b\n\n"})
    EXPECT_EQ(ids(same), (Ids{0, 4})) << same;
}

/// By the definition: of all pairs that lie beside each other the one of the smallest rank, the first of these, again and again.
Ids merged_one_by_one(Ids parts, const std::vector<std::pair<Ids, std::int64_t>>& merges) {
  for (;;) {
    bool found = false;
    for (const auto& [pair, into] : merges) {
      const auto at = std::search(parts.begin(), parts.end(), pair.begin(), pair.end());
      if (at == parts.end()) continue;
      *at = into;
      parts.erase(at + 1);
      found = true;
      break;
    }
    if (!found) return parts;
  }
}

TEST(Tokenizers, merge_pairs_in_the_order_of_their_ranks_from_the_front_whatever_they_are) {
  const testing::TemporaryFolder folder;
  PhiloxStream draws(5, 1);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> tokens{"a", "b", "c"};
    std::vector<std::pair<Ids, std::int64_t>> merges;
    std::string lines;
    while (tokens.size() < 14) {
      const std::int64_t a = draws.below(static_cast<std::uint32_t>(tokens.size())), b = draws.below(static_cast<std::uint32_t>(tokens.size()));
      const std::string joined = tokens[static_cast<std::size_t>(a)] + tokens[static_cast<std::size_t>(b)];
      if (std::ranges::find(tokens, joined) != tokens.end()) continue;
      merges.push_back({{a, b}, std::ssize(tokens)});
      lines += tokens[static_cast<std::size_t>(a)] + " " + tokens[static_cast<std::size_t>(b)] + "\n";
      tokens.push_back(joined);
    }
    nlohmann::json vocabulary;
    for (std::size_t i = 0; i < tokens.size(); ++i) vocabulary[tokens[i]] = i;
    testing::write_text(folder / "vocab.json", vocabulary.dump());
    testing::write_text(folder / "merges.txt", lines);
    const BytePairs pairs(folder / "vocab.json", folder / "merges.txt");
    for (int i = 0; i < 20; ++i) {
      std::string text;
      Ids letters;
      for (std::uint32_t n = draws.below(40); n > 0; --n) {
        letters.push_back(draws.below(draws.below(2) ? 2 : 3));
        text += static_cast<char>('a' + letters.back());
      }
      EXPECT_EQ(pairs.encode(text), merged_one_by_one(letters, merges)) << text << "\n" << lines;
    }
  }
}

/// Some bytes of a file are changed, cut away or put in.
std::string damaged(std::string text, PhiloxStream& draws) {
  for (std::uint32_t i = 1 + draws.below(4); i > 0 && !text.empty(); --i) {
    const std::size_t at = draws.below(static_cast<std::uint32_t>(text.size()));
    const auto byte = static_cast<char>(draws.below(256));
    switch (draws.below(4)) {
      case 0:
        text[at] = byte;
        break;
      case 1:
        text.erase(at, draws.below(40));
        break;
      case 2:
        text.insert(at, draws.below(20), byte);
        break;
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

TEST(Tokenizers, end_with_an_error_or_none_whatever_happened_to_their_files) {
  const testing::TemporaryFolder folder;
  PhiloxStream draws(3, 0);
  int refused = 0;
  const auto load = [&](const auto& encode) {
    try {
      encode();
    } catch (const Error&) {
      ++refused;
    }
  };
  const std::string lines = testing::read_text(kTokenizerData / "cased.txt"), json = testing::read_text(kTokenizerData / "vocab.json"),
                    merges = testing::read_text(kTokenizerData / "merges.txt");
  const std::vector<std::string> texts = tokenizer_texts();
  for (std::size_t i = 0; i < 200; ++i) {
    const std::string& text = texts[i * 7];
    testing::write_text(folder / "vocab.txt", damaged(lines, draws));
    load([&] { (void)WordPiece(folder / "vocab.txt", Letters::kept).encode(text); });
    testing::write_text(folder / "vocab.json", i % 2 ? json : damaged(json, draws));
    testing::write_text(folder / "merges.txt", i % 2 ? damaged(merges, draws) : merges);
    load([&] {
      const BytePairs pairs(folder / "vocab.json", folder / "merges.txt");
      (void)pairs.decode(pairs.encode(text));
    });
    load([&] { (void)WordPiece(kTokenizerData / "cased.txt").encode(damaged(text, draws)); });
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace gemel::datasets
