#include "datasets/texts/wordpiece.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "datasets/formats/unicode.h"
#include "engine/base/error.h"

namespace gemel::datasets {
namespace {

constexpr std::size_t kLongestWord = 100;   // letters
constexpr std::string_view kInside = "##";  // begins a piece that is not a word's first

bool is_ideograph(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
                                                       {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
  return c >= 0x3400 && std::ranges::any_of(kRanges, [c](const auto& range) { return c >= range.first && c <= range.second; });
}

/// All marks of ASCII count, also those that Unicode calls symbols.
bool ends_word(char32_t c) {
  if (c < 0x80) return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  return is_punctuation(c);
}

std::int64_t required(const Vocabulary& vocabulary, const char* token, const std::filesystem::path& file) {
  if (const auto id = vocabulary.find(token)) return *id;
  throw DataError(fmt::format("vocabulary: {} has no {}; accepted: BERT's vocabularies, with [UNK], [CLS], [SEP] and [PAD]", file.string(), token));
}

}  // namespace

WordPiece::WordPiece(const std::filesystem::path& vocabulary, Letters letters)
    : WordPiece(Vocabulary::of_lines(vocabulary), letters, {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}, vocabulary) {}

WordPiece::WordPiece(Vocabulary vocabulary, Letters letters, const std::vector<std::string>& special, const std::filesystem::path& file)
    : vocabulary_(std::move(vocabulary)),
      letters_(letters),
      special_(vocabulary_, special),
      unknown_(required(vocabulary_, "[UNK]", file)),
      begin_(required(vocabulary_, "[CLS]", file)),
      separator_(required(vocabulary_, "[SEP]", file)),
      padding_(required(vocabulary_, "[PAD]", file)) {
  for (std::int64_t id = 0; id < vocabulary_.size(); ++id) longest_ = std::max(longest_, vocabulary_.token(id).size());
}

std::vector<std::int64_t> WordPiece::encode(std::string_view text) const {
  std::vector<std::int64_t> out;
  special_.cut(
      text, [&](std::string_view plain) { append_plain(out, plain); }, [&](std::int64_t id) { out.push_back(id); });
  return out;
}

/// Without controls, white space as spaces, ideographs between spaces; in lower case without accents, where that is asked for.
std::u32string WordPiece::normalised(std::string_view text) const {
  std::u32string cleaned;
  cleaned.reserve(text.size());
  for (const char32_t c : code_points(text)) {
    const bool is_space = is_white_space(c) && (c >= 0x80 || c == ' ' || c == '\t' || c == '\n' || c == '\r');
    if (c == 0 || c == 0xfffd || (is_other(c) && c != '\t' && c != '\n' && c != '\r')) continue;
    if (is_ideograph(c))
      cleaned += {U' ', c, U' '};
    else
      cleaned.push_back(is_space ? U' ' : c);
  }
  if (letters_ == Letters::kept) return cleaned;
  std::u32string out;
  out.reserve(cleaned.size());
  for (const char32_t c : decomposed(cleaned))
    if (!is_nonspacing_mark(c)) append_lower(out, c);
  return out;
}

void WordPiece::append_plain(std::vector<std::int64_t>& out, std::string_view text) const {
  const std::u32string all = normalised(text);
  for (std::size_t i = 0; i < all.size();) {
    if (is_white_space(all[i])) {
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    if (!ends_word(all[i]))
      while (end < all.size() && !is_white_space(all[end]) && !ends_word(all[end])) ++end;
    append_word(out, std::u32string_view(all).substr(i, end - i));
    i = end;
  }
}

void WordPiece::append_word(std::vector<std::int64_t>& out, std::u32string_view word) const {
  if (word.size() > kLongestWord) return out.push_back(unknown_);
  std::string text(kInside);
  std::vector<std::size_t> ends;  // bytes in `text` behind each letter
  for (const char32_t c : word) {
    append_utf8(text, c);
    ends.push_back(text.size());
  }
  const std::size_t before = out.size();
  std::string piece;
  for (std::size_t first = 0; first < word.size();) {
    const std::size_t begin = first == 0 ? kInside.size() : ends[first - 1];
    std::optional<std::int64_t> found;
    std::size_t last = word.size();
    for (; last > first && !found; --last) {
      if (ends[last - 1] - begin > longest_) continue;
      piece.assign(first == 0 ? "" : kInside);
      piece.append(text, begin, ends[last - 1] - begin);
      found = vocabulary_.find(piece);
    }
    if (!found) {
      out.resize(before);
      return out.push_back(unknown_);
    }
    out.push_back(*found);
    first = last + 1;
  }
}

Tokens WordPiece::for_model(std::string_view text, std::optional<std::string_view> second, std::int64_t longest) const {
  const std::int64_t around = second ? 3 : 2;
  if (longest < around) throw UsageError(fmt::format("tokenizer: at most {} tokens are wanted; accepted: {} or more, for [CLS] and [SEP]", longest, around));
  std::vector<std::int64_t> a = encode(text), b = second ? encode(*second) : std::vector<std::int64_t>();
  const KeptTokens kept = longest_first(std::ssize(a), std::ssize(b), longest - around);
  a.resize(static_cast<std::size_t>(kept.first));
  b.resize(static_cast<std::size_t>(kept.second));
  Tokens out;
  out.ids.push_back(begin_);
  out.ids.insert(out.ids.end(), a.begin(), a.end());
  out.ids.push_back(separator_);
  out.types.assign(out.ids.size(), 0);
  if (!second) return out;
  out.ids.insert(out.ids.end(), b.begin(), b.end());
  out.ids.push_back(separator_);
  out.types.resize(out.ids.size(), 1);
  return out;
}

std::string WordPiece::decode(const std::vector<std::int64_t>& ids) const {
  std::string out;
  for (const std::int64_t id : ids) {
    const std::string& token = vocabulary_.token(id);
    if (token.starts_with(kInside))
      out += token.substr(kInside.size());
    else
      out += (out.empty() ? "" : " ") + token;
  }
  return out;
}

}  // namespace gemel::datasets
