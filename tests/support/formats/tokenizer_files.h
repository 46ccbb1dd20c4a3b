// Files of tokenizers: those of tests/data, and tokenizer.json as Hugging Face's tokenizers 0.23 write it, around tokens of a test's own.
#pragma once
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gemel::testing {

/// Vocabularies, texts, and the numbers that Hugging Face's tokenizers give them.
inline const std::filesystem::path kTokenizerData = std::filesystem::path(GEMEL_SOURCE_DIR) / "tests/data/tokenizers";

inline std::vector<std::string> tokenizer_texts() {
  std::ifstream in(kTokenizerData / "strings.json");
  return nlohmann::json::parse(in).get<std::vector<std::string>>();
}

inline nlohmann::json added_token(int id, const std::string& content) {
  return {{"id", id}, {"content", content}, {"single_word", false}, {"lstrip", false}, {"rstrip", false}, {"normalized", false}, {"special", true}};
}

/// @param tokens  with [PAD], [UNK], [CLS] and [SEP]
inline nlohmann::json word_piece_json(const nlohmann::json& tokens, bool lower) {
  nlohmann::json added = nlohmann::json::array(), special;
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    if (tokens.contains(token)) added.push_back(added_token(tokens[token], token));
  for (const char* token : {"[CLS]", "[SEP]"})
    special[token] = {{"id", token}, {"ids", nlohmann::json::array({tokens[token]})}, {"tokens", nlohmann::json::array({token})}};
  const auto piece = [](const char* kind, const char* id, int type) { return nlohmann::json{{kind, {{"id", id}, {"type_id", type}}}}; };
  const auto cls = piece("SpecialToken", "[CLS]", 0), a = piece("Sequence", "A", 0), sep = piece("SpecialToken", "[SEP]", 0), b = piece("Sequence", "B", 1),
             last = piece("SpecialToken", "[SEP]", 1);
  return {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", {{"type", "BertNormalizer"}, {"clean_text", true}, {"handle_chinese_chars", true}, {"strip_accents", nullptr}, {"lowercase", lower}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", nlohmann::json::array({cls, a, sep})},
        {"pair", nlohmann::json::array({cls, a, sep, b, last})},
        {"special_tokens", special}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
      {"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"continuing_subword_prefix", "##"}, {"max_input_chars_per_word", 100}, {"vocab", tokens}}}};
}

/// @param merges  of two tokens each  <|endoftext|> is added where the tokens lack it.
inline nlohmann::json byte_pairs_json(const nlohmann::json& tokens, const nlohmann::json& merges) {
  const int end = tokens.contains("<|endoftext|>") ? tokens["<|endoftext|>"].get<int>() : static_cast<int>(tokens.size());
  const nlohmann::json sequence{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  return {{"version", "1.0"},
          {"added_tokens", nlohmann::json::array({added_token(end, "<|endoftext|>")})},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
          {"post_processor", {{"type", "TemplateProcessing"}, {"single", nlohmann::json::array({sequence})}, {"special_tokens", nlohmann::json::object()}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", tokens},
            {"merges", merges}}}};
}

}  // namespace gemel::testing
