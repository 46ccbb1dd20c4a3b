#include "datasets/texts/tokenizer_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "datasets/formats/lines.h"
#include "datasets/texts/wordpiece.h"
#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/files/git_lfs.h"
#include "engine/base/text/json_text.h"

namespace gemel::datasets {
namespace {

using nlohmann::json;

constexpr const char* kAccepted = "accepted: BERT's WordPiece and GPT-2's byte pairs";

/// A tokenizer.json, and what is asked of its parts.
class Description {
 public:
  explicit Description(const std::filesystem::path& path) : path_(path) {
    const std::vector<std::byte> content = read_fetched(path);
    json_ = json::parse(as_text(content), nullptr, false);
    if (json_.is_discarded()) fail("it is no valid JSON");
    if (!json_.is_object() || !part("model").is_object()) fail("it describes no model; accepted: a tokenizer.json; of vocab.json and merges.txt their folder");
  }

  const std::filesystem::path& path() const { return path_; }
  /// Null where it is not there.
  const json& part(const char* name) const { return member(json_, name); }
  static const json& member(const json& object, const char* name) {
    static const json null;
    const auto it = object.is_object() ? object.find(name) : object.end();
    return object.is_object() && it != object.end() ? *it : null;
  }
  /// "BPE", "WordPiece", ...; older files do not say it, and are told by what they have.
  std::string model_type() const {
    const json& model = part("model");
    if (const json& type = member(model, "type"); type.is_string()) return type.get<std::string>();
    if (!member(model, "merges").is_null()) return "BPE";
    if (!member(model, "max_input_chars_per_word").is_null()) return "WordPiece";
    return member(model, "vocab").is_array() ? "Unigram" : "WordLevel";
  }
  [[noreturn]] void fail(const std::string& what) const { throw DataError(fmt::format("tokenizer: {}: {}", path_.string(), what)); }
  /// That a part is of a type. @param type  null: the part is not there, or null
  void require_type(const char* name, const json& type) const {
    const json& found = member(part(name), "type");
    if (part(name).is_null() ? type.is_null() : found == type) return;
    fail(fmt::format("its {} is {}; {}, of which it is {}", name, part(name).is_null() ? "null" : message_text(found), kAccepted, message_text(type)));
  }
  /// That a member of an object has one of some values.
  void require(const char* name, const json& object, const char* key, std::initializer_list<json> values) const {
    const json& found = member(object, key);
    if (std::ranges::find(values, found) != values.end()) return;
    std::vector<std::string> accepted;
    for (const json& v : values) accepted.push_back(message_text(v));
    fail(fmt::format("its {} has {} {}; {}, of which it is {}", name, key, message_text(found), kAccepted, fmt::join(accepted, " or ")));
  }

 private:
  std::filesystem::path path_;
  json json_;
};

/// The model's tokens and those that were added to them.
struct AllTokens {
  Vocabulary vocabulary;
  std::vector<std::string> added;
};

/// @param normalized  what the added tokens' member of that name may be: whether they are looked for in the text as normalised
AllTokens tokens_of(const Description& file, std::initializer_list<json> normalized) {
  const json& vocabulary = Description::member(file.part("model"), "vocab");
  if (!vocabulary.is_object()) file.fail("its model has no vocab of tokens and their numbers");
  std::vector<std::pair<std::string, std::int64_t>> all;
  for (const auto& [token, id] : vocabulary.items()) {
    if (!id.is_number_integer()) file.fail(fmt::format("its token '{}' has the number {}; accepted: whole numbers", token, message_text(id)));
    all.emplace_back(token, id.get<std::int64_t>());
  }
  std::vector<std::string> added;
  const json& list = file.part("added_tokens");
  if (!list.is_null() && !list.is_array()) file.fail("its added_tokens are no array");
  for (const json& t : list) {
    const json &content = Description::member(t, "content"), &id = Description::member(t, "id");
    if (!content.is_string() || content.get_ref<const std::string&>().empty() || !id.is_number_integer())
      file.fail("one of its added_tokens has no content or no id");
    const auto name = content.get<std::string>();
    for (const char* flag : {"lstrip", "rstrip", "single_word"}) file.require(fmt::format("added token '{}'", name).c_str(), t, flag, {false, nullptr});
    file.require(fmt::format("added token '{}'", name).c_str(), t, "normalized", normalized);
    added.push_back(name);
    if (const auto it = vocabulary.find(name); it == vocabulary.end())
      all.emplace_back(name, id.get<std::int64_t>());
    else if (*it != id)
      file.fail(
          fmt::format("its added token '{}' has the number {}, and in the vocabulary {}; accepted: one number", name, message_text(id), message_text(*it)));
  }
  return {Vocabulary::of_numbers(std::move(all), Vocabulary::Gaps::accepted, file.path()), std::move(added)};
}

json special(const char* token, int type) { return {{"SpecialToken", {{"id", token}, {"type_id", type}}}}; }
json sequence(const char* name, int type) { return {{"Sequence", {{"id", name}, {"type_id", type}}}}; }

/// That texts stand between [CLS] and [SEP], two of them with [SEP] between.
void check_ends(const Description& file, const Vocabulary& vocabulary) {
  const json& post = file.part("post_processor");
  const auto number = [&](const char* token) { return vocabulary.find(token).value_or(-1); };
  const auto refuse = [&] {
    file.fail(fmt::format("its post_processor puts other tokens around texts than [CLS] A [SEP] and [CLS] A [SEP] B [SEP]; {}", kAccepted));
  };
  if (Description::member(post, "type") == "BertProcessing") {
    for (const auto& [key, token] : {std::pair{"cls", "[CLS]"}, {"sep", "[SEP]"}})
      if (Description::member(post, key) != json::array({token, number(token)})) refuse();
    return;
  }
  file.require_type("post_processor", "TemplateProcessing");
  const json cls = special("[CLS]", 0), a = sequence("A", 0), sep = special("[SEP]", 0), b = sequence("B", 1), last = special("[SEP]", 1);
  if (Description::member(post, "single") != json::array({cls, a, sep}) || Description::member(post, "pair") != json::array({cls, a, sep, b, last})) refuse();
  for (const char* token : {"[CLS]", "[SEP]"})
    if (Description::member(Description::member(Description::member(post, "special_tokens"), token), "ids") != json::array({number(token)})) refuse();
}

std::unique_ptr<WordPiece> word_piece_of(const Description& file, Letters letters) {
  const json &normalizer = file.part("normalizer"), &model = file.part("model");
  file.require_type("normalizer", "BertNormalizer");
  file.require("normalizer", normalizer, "clean_text", {true});
  file.require("normalizer", normalizer, "handle_chinese_chars", {true});
  file.require("normalizer", normalizer, "lowercase", {true, false});
  const json& lower = Description::member(normalizer, "lowercase");
  file.require("normalizer", normalizer, "strip_accents", {nullptr, lower});
  if (lower == true && letters == Letters::kept) file.fail("it makes letters lower case; accepted: without --cased");
  file.require_type("pre_tokenizer", "BertPreTokenizer");
  file.require("model", model, "continuing_subword_prefix", {"##"});
  file.require("model", model, "max_input_chars_per_word", {100});
  file.require("model", model, "unk_token", {"[UNK]"});
  AllTokens tokens = tokens_of(file, {false});
  check_ends(file, tokens.vocabulary);
  return std::make_unique<WordPiece>(std::move(tokens.vocabulary), lower == true ? Letters::lower : Letters::kept, tokens.added, file.path());
}

/// ["a", "b"], and of older files "a b".
BytePairs::Merges merges_of(const Description& file) {
  const json& list = Description::member(file.part("model"), "merges");
  if (!list.is_array()) file.fail("its model has no merges");
  BytePairs::Merges out;
  out.reserve(list.size());
  for (const json& m : list) {
    const bool is_pair = m.is_array() && m.size() == 2 && m[0].is_string() && m[1].is_string();
    const std::string text = m.is_string() ? m.get<std::string>() : "";
    const std::size_t space = text.find(' ');
    if (is_pair)
      out.emplace_back(m[0].get<std::string>(), m[1].get<std::string>());
    else if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
      out.emplace_back(text.substr(0, space), text.substr(space + 1));
    else
      file.fail(fmt::format("its merge {} (from 0) is {}; accepted: two tokens", out.size(), message_text(m)));
  }
  return out;
}

std::unique_ptr<BytePairs> byte_pairs_of(const Description& file) {
  const json &model = file.part("model"), &before = file.part("pre_tokenizer");
  file.require_type("normalizer", nullptr);
  file.require_type("pre_tokenizer", "ByteLevel");
  file.require("pre_tokenizer", before, "add_prefix_space", {false});
  file.require("pre_tokenizer", before, "use_regex", {true, nullptr});
  const json& post = file.part("post_processor");
  const bool adds_nothing = Description::member(post, "type") == "TemplateProcessing" && Description::member(post, "single") == json::array({sequence("A", 0)});
  if (!post.is_null() && !adds_nothing) file.require_type("post_processor", "ByteLevel");
  file.require("model", model, "dropout", {nullptr, 0});
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) file.require("model", model, key, {nullptr, ""});
  for (const char* key : {"byte_fallback", "ignore_merges"}) file.require("model", model, key, {nullptr, false});
  AllTokens tokens = tokens_of(file, {false, true, nullptr});
  try {
    auto out = std::make_unique<BytePairs>(std::move(tokens.vocabulary), merges_of(file), tokens.added);
    if (!out->has_all_bytes()) file.require("model", model, "unk_token", {nullptr});  // bytes without a token are left out, not unknown
    return out;
  } catch (const DataError& e) {
    if (std::string_view(e.what()).starts_with("merge ")) file.fail("its " + std::string(e.what()));
    throw;
  }
}

}  // namespace

bool is_json_object(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  text = without_mark(text);
  const std::size_t first = text.find_first_not_of(kSpace), last = text.find_last_not_of(kSpace);
  return first != std::string_view::npos && text[first] == '{' && text[last] == '}';
}

std::unique_ptr<Tokenizer> read_tokenizer_json(const std::filesystem::path& path, Letters letters) {
  const Description file(path);
  const std::string type = file.model_type();
  if (type == "WordPiece") return word_piece_of(file, letters);
  if (type == "BPE") return byte_pairs_of(file);
  file.fail(fmt::format("it describes {}; {}", type, kAccepted));
}

std::unique_ptr<BytePairs> read_byte_pairs_json(const std::filesystem::path& path) {
  const Description file(path);
  if (const std::string type = file.model_type(); type != "BPE") file.fail(fmt::format("it describes {}; accepted: GPT-2's byte pairs", type));
  return byte_pairs_of(file);
}

}  // namespace gemel::datasets
