// tokenizer.json: the same numbers as from lists of tokens and merges, and a word of what is described that is neither WordPiece nor byte pairs over bytes.
#include "datasets/texts/tokenizer_json.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "datasets/texts/open_tokenizer.h"
#include "datasets/texts/wordpiece.h"
#include "engine/base/error.h"
#include "tests/support/formats/tokenizer_files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::datasets {
namespace {

using Json = nlohmann::json;
using testing::byte_pairs_json, testing::kTokenizerData, testing::message_of, testing::tokenizer_texts, testing::word_piece_json;
using Ids = std::vector<std::int64_t>;

/// The tokens of a list, and their numbers.
Json numbers_of(const std::filesystem::path& lines) {
  Json out;
  std::ifstream in(lines);
  std::int64_t number = 0;
  for (std::string line; std::getline(in, line);) out[line] = number++;
  return out;
}

Json merges_of(const std::filesystem::path& lines) {
  Json out = Json::array();
  std::ifstream in(lines);
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with("#version")) out.push_back(Json::array({line.substr(0, line.find(' ')), line.substr(line.find(' ') + 1)}));
  return out;
}

class JsonFile {
 public:
  std::filesystem::path write(const Json& content) const {
    testing::write_text(folder_ / "tokenizer.json", content.dump());
    return folder_ / "tokenizer.json";
  }
  std::filesystem::path path() const { return folder_ / "tokenizer.json"; }
  std::filesystem::path folder() const { return folder_.path(); }

 private:
  testing::TemporaryFolder folder_;
};

TEST(TokenizerJson, word_pieces_are_those_of_the_list_of_tokens) {
  const JsonFile file;
  const Json described = word_piece_json(numbers_of(kTokenizerData / "cased.txt"), false);
  const auto read = open_tokenizer(file.write(described));
  const WordPiece expected(kTokenizerData / "cased.txt", Letters::kept);
  for (const std::string& text : tokenizer_texts()) EXPECT_EQ(read->encode(text), expected.encode(text)) << text;
  EXPECT_EQ(read->for_model("a text", "another", 9).ids, expected.for_model("a text", "another", 9).ids);
  EXPECT_EQ(open_tokenizer(file.folder())->encode("a text"), expected.encode("a text")) << "in a folder that has nothing else";
  EXPECT_EQ(open_tokenizer(file.path(), Letters::kept)->encode("A Text"), expected.encode("A Text"));
  const WordPiece lower(kTokenizerData / "cased.txt");
  EXPECT_EQ(open_tokenizer(file.write(word_piece_json(numbers_of(kTokenizerData / "cased.txt"), true)))->encode("A T\u00e9xt"), lower.encode("A T\u00e9xt"));
  EXPECT_EQ(message_of<DataError>([&] { open_tokenizer(file.path(), Letters::kept); }),
            "tokenizer: " + file.path().string() + ": it makes letters lower case; accepted: without --cased");
}

TEST(TokenizerJson, byte_pairs_are_those_of_vocab_json_and_merges) {
  const JsonFile file;
  std::ifstream vocabulary(kTokenizerData / "vocab.json");
  Json described = byte_pairs_json(Json::parse(vocabulary), merges_of(kTokenizerData / "merges.txt"));
  const auto read = open_tokenizer(file.write(described));
  const BytePairs expected(kTokenizerData / "vocab.json", kTokenizerData / "merges.txt");
  for (const std::string& text : tokenizer_texts()) EXPECT_EQ(read->encode(text), expected.encode(text)) << text;
  EXPECT_EQ(open_byte_pairs(file.path())->ends().end, expected.ends().end);
  EXPECT_EQ(open_byte_pairs(file.folder())->encode("a text"), expected.encode("a text"));
  // As older files have it: merges as text, no types, and a processor that adds nothing.
  for (Json& m : described["model"]["merges"]) m = m[0].get<std::string>() + " " + m[1].get<std::string>();
  described["model"].erase("type");
  described["model"].erase("byte_fallback");
  described["model"].erase("ignore_merges");
  described["pre_tokenizer"].erase("use_regex");
  described["post_processor"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}};
  described["added_tokens"][0]["normalized"] = true;
  EXPECT_EQ(open_tokenizer(file.write(described))->encode("an older text<|endoftext|>"), expected.encode("an older text<|endoftext|>"));
}

TEST(TokenizerJson, tokens_that_were_added_stand_in_a_text_as_they_are) {
  const JsonFile file;
  Json described = word_piece_json({{"[PAD]", 0}, {"[UNK]", 1}, {"[CLS]", 2}, {"[SEP]", 3}, {"a", 4}, {"##b", 5}}, true);
  described["added_tokens"].push_back(testing::added_token(6, "<New>"));
  const auto read = open_tokenizer(file.write(described));
  EXPECT_EQ(read->encode("ab<New>A<new>"), (Ids{4, 5, 6, 4, 1, 1, 1}));
  EXPECT_EQ(read->vocabulary().size(), 7);
}

TEST(TokenizerJson, what_it_describes_besides_is_said_in_one_line) {
  const JsonFile file;
  const Json tokens{{"[PAD]", 0}, {"[UNK]", 1}, {"[CLS]", 2}, {"[SEP]", 3}, {"a", 4}};
  const Json pieces = word_piece_json(tokens, true), pairs = byte_pairs_json({{"a", 0}, {"b", 1}, {"ab", 2}}, Json::array({Json::array({"a", "b"})}));
  const auto refused = [&](const Json& from, const char* place, const Json& value) {
    Json described = from;
    described[Json::json_pointer(place)] = value;
    const std::string message = message_of<DataError>([&] { open_tokenizer(file.write(described)); }), begin = "tokenizer: " + file.path().string() + ": ";
    EXPECT_TRUE(message.starts_with(begin)) << message;
    return message.substr(begin.size());
  };
  const std::string accepted = "; accepted: BERT's WordPiece and GPT-2's byte pairs";
  EXPECT_EQ(refused(pairs, "/model", {{"type", "Unigram"}, {"vocab", Json::array()}}), "it describes Unigram" + accepted);
  EXPECT_EQ(refused(pairs, "/model", {{"vocab", Json::array({Json::array({"<unk>", 0})})}}), "it describes Unigram" + accepted);
  EXPECT_EQ(refused(pairs, "/model", {{"vocab", {{"a", 0}}}}), "it describes WordLevel" + accepted);
  EXPECT_EQ(refused(pairs, "/model", nullptr), "it describes no model; accepted: a tokenizer.json; of vocab.json and merges.txt their folder");
  EXPECT_EQ(refused(pairs, "/pre_tokenizer", {{"type", "Sequence"}}), "its pre_tokenizer is \"Sequence\"" + accepted + ", of which it is \"ByteLevel\"");
  EXPECT_EQ(refused(pairs, "/pre_tokenizer", nullptr), "its pre_tokenizer is null" + accepted + ", of which it is \"ByteLevel\"");
  EXPECT_EQ(refused(pairs, "/pre_tokenizer/add_prefix_space", true), "its pre_tokenizer has add_prefix_space true" + accepted + ", of which it is false");
  EXPECT_EQ(refused(pairs, "/normalizer", {{"type", "NFC"}}), "its normalizer is \"NFC\"" + accepted + ", of which it is null");
  EXPECT_EQ(refused(pairs, "/model/byte_fallback", true), "its model has byte_fallback true" + accepted + ", of which it is null or false");
  EXPECT_EQ(refused(pairs, "/model/ignore_merges", true), "its model has ignore_merges true" + accepted + ", of which it is null or false");
  EXPECT_EQ(refused(pairs, "/model/end_of_word_suffix", "</w>"), "its model has end_of_word_suffix \"</w>\"" + accepted + ", of which it is null or \"\"");
  EXPECT_EQ(refused(pairs, "/model/dropout", 0.1), "its model has dropout 0.1" + accepted + ", of which it is null or 0");
  EXPECT_EQ(refused(pairs, "/model/unk_token", "a"), "its model has unk_token \"a\"" + accepted + ", of which it is null");
  EXPECT_EQ(refused(pairs, "/post_processor", {{"type", "RobertaProcessing"}}),
            "its post_processor is \"RobertaProcessing\"" + accepted + ", of which it is \"ByteLevel\"");
  EXPECT_EQ(refused(pairs, "/model/merges", Json::array({Json::array({"a", "c"})})),
            "its merge 0 (from 0): the vocabulary has no token 'c'; accepted: merges of its tokens into its tokens");
  EXPECT_EQ(refused(pairs, "/model/merges", Json::array({"a b c"})), "its merge 0 (from 0) is \"a b c\"; accepted: two tokens");
  EXPECT_EQ(refused(pairs, "/model/merges", "a b"), "its model has no merges");
  EXPECT_EQ(refused(pairs, "/added_tokens/0/lstrip", true), "its added token '<|endoftext|>' has lstrip true" + accepted + ", of which it is false or null");
  EXPECT_EQ(refused(pairs, "/added_tokens/0/content", ""), "one of its added_tokens has no content or no id");
  EXPECT_EQ(refused(pieces, "/added_tokens/1/normalized", true), "its added token '[UNK]' has normalized true" + accepted + ", of which it is false");
  EXPECT_EQ(refused(pieces, "/added_tokens/1/id", 3), "its added token '[UNK]' has the number 3, and in the vocabulary 1; accepted: one number");
  EXPECT_EQ(refused(pieces, "/normalizer/strip_accents", false), "its normalizer has strip_accents false" + accepted + ", of which it is null or true");
  EXPECT_EQ(refused(pieces, "/normalizer/handle_chinese_chars", false), "its normalizer has handle_chinese_chars false" + accepted + ", of which it is true");
  EXPECT_EQ(refused(pieces, "/pre_tokenizer/type", "Whitespace"), "its pre_tokenizer is \"Whitespace\"" + accepted + ", of which it is \"BertPreTokenizer\"");
  EXPECT_EQ(refused(pieces, "/model/max_input_chars_per_word", 200), "its model has max_input_chars_per_word 200" + accepted + ", of which it is 100");
  EXPECT_EQ(refused(pieces, "/post_processor", nullptr), "its post_processor is null" + accepted + ", of which it is \"TemplateProcessing\"");
  const std::string ends = "its post_processor puts other tokens around texts than [CLS] A [SEP] and [CLS] A [SEP] B [SEP]" + accepted;
  EXPECT_EQ(refused(pieces, "/post_processor/single", Json::array()), ends);
  EXPECT_EQ(refused(pieces, "/post_processor/special_tokens/[CLS]/ids/0", 3), ends);
  EXPECT_EQ(refused(pieces, "/post_processor", {{"type", "BertProcessing"}, {"cls", Json::array({"[CLS]", 2})}, {"sep", Json::array({"[SEP]", 2})}}), ends);
  EXPECT_EQ(message_of<DataError>([&] { open_byte_pairs(file.write(pieces)); }),
            "tokenizer: " + file.path().string() + ": it describes WordPiece; accepted: GPT-2's byte pairs");
  testing::write_text(file.path(), "{\"model\": {");
  EXPECT_EQ(message_of<DataError>([&] { open_tokenizer(file.path()); }), "tokenizer: " + file.path().string() + ": it is no valid JSON");
  Json gap = pieces;
  gap["model"]["vocab"]["b"] = 1 << 30;
  EXPECT_NE(message_of<DataError>([&] { open_tokenizer(file.write(gap)); }).find("'b' has the number 1073741824 of 6 tokens"), std::string::npos);
  gap["model"]["vocab"]["b"] = 4;
  EXPECT_NE(message_of<DataError>([&] { open_tokenizer(file.write(gap)); }).find("has the number 4, as another one has"), std::string::npos);
}

/// As a list of tokens leaves them that had some twice, or blank lines.
TEST(TokenizerJson, numbers_may_be_missing) {
  const JsonFile file;
  const auto read = open_tokenizer(file.write(word_piece_json({{"[PAD]", 0}, {"[UNK]", 1}, {"[CLS]", 4}, {"[SEP]", 5}, {"a", 9}}, true)));
  EXPECT_EQ(read->for_model("a", {}, 9).ids, (Ids{4, 9, 5}));
  EXPECT_EQ(read->vocabulary().size(), 10);
  EXPECT_EQ(read->vocabulary().token(3), "");
}

TEST(TokenizerJson, the_processor_of_earlier_berts_is_the_same) {
  const JsonFile file;
  Json described = word_piece_json({{"[PAD]", 0}, {"[UNK]", 1}, {"[CLS]", 2}, {"[SEP]", 3}, {"a", 4}}, true);
  described["post_processor"] = {{"type", "BertProcessing"}, {"cls", Json::array({"[CLS]", 2})}, {"sep", Json::array({"[SEP]", 3})}};
  described["model"].erase("type");
  EXPECT_EQ(open_tokenizer(file.write(described))->for_model("A", {}, 9).ids, (Ids{2, 4, 3}));
}

}  // namespace
}  // namespace gemel::datasets
