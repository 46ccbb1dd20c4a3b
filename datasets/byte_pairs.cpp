#include "datasets/byte_pairs.h"

#include <fmt/format.h>

#include <algorithm>

#include "datasets/unicode.h"
#include "engine/base/error.h"
#include "engine/base/file.h"

namespace gemel::datasets {
namespace {

/// Letters in place of bytes, none of them a control or white space: those of Latin-1 that can be seen stand for themselves, the others are
/// numbered from U+0100 on.
std::array<char32_t, 256> letters_of_bytes() {
  std::array<char32_t, 256> out{};
  char32_t next = 0x100;
  for (char32_t b = 0; b < 256; ++b) {
    const bool is_seen = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    out[b] = is_seen ? b : next++;
  }
  return out;
}
const std::array<char32_t, 256>& byte_letters() {
  static const std::array<char32_t, 256> all = letters_of_bytes();
  return all;
}
int byte_of(char32_t letter) {
  static const std::unordered_map<char32_t, int> all = [] {
    std::unordered_map<char32_t, int> out;
    for (int b = 0; b < 256; ++b) out.emplace(byte_letters()[static_cast<std::size_t>(b)], b);
    return out;
  }();
  const auto it = all.find(letter);
  return it == all.end() ? -1 : it->second;
}

/// The end of the word that begins at i, as GPT-2's pattern has it:
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t end_of_word(std::u32string_view text, std::size_t i) {
  constexpr std::u32string_view kEndings[] = {U"'s", U"'t", U"'re", U"'ve", U"'m", U"'ll", U"'d"};
  for (const std::u32string_view ending : kEndings)
    if (text.substr(i).starts_with(ending)) return i + ending.size();
  const std::size_t first = text[i] == U' ' ? i + 1 : i;
  const auto run = [&](auto is_in) {
    std::size_t end = first;
    while (end < text.size() && is_in(text[end])) ++end;
    return end;
  };
  if (const std::size_t end = run(is_letter); end > first) return end;
  if (const std::size_t end = run(is_number); end > first) return end;
  if (const std::size_t end = run([](char32_t c) { return !is_white_space(c) && !is_letter(c) && !is_number(c); }); end > first) return end;
  std::size_t end = i;
  while (end < text.size() && is_white_space(text[end])) ++end;
  return end == text.size() || end == i + 1 ? end : end - 1;  // the last space belongs to the word behind it
}

}  // namespace

BytePairs::BytePairs(const std::filesystem::path& vocabulary, const std::filesystem::path& merges)
    : vocabulary_(Vocabulary::of_json(vocabulary)), special_(vocabulary_, {"<|endoftext|>"}) {
  for (std::size_t b = 0; b < byte_ids_.size(); ++b) byte_ids_[b] = vocabulary_.find(utf8_of(std::u32string_view(&byte_letters()[b], 1))).value_or(-1);
  read_merges(merges);
}

void BytePairs::read_merges(const std::filesystem::path& file) {
  const std::vector<std::byte> content = read_whole(file);
  const std::string_view text = as_text(content);
  std::int64_t rank = 0;
  for (std::size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("#version") || line.empty()) continue;
    const std::size_t space = line.find(' ');
    const auto refuse = [&](const std::string& why) { throw DataError(fmt::format("merges: {}, line {}: {}", file.string(), number, why)); };
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) refuse(fmt::format("'{}'; accepted: two tokens with a space between", line));
    const std::string_view a = line.substr(0, space), b = line.substr(space + 1);
    const std::string joined = std::string(a) + std::string(b);
    for (const std::string_view token : {a, b, std::string_view(joined)})
      if (!vocabulary_.find(token)) refuse(fmt::format("the vocabulary has no token '{}'; accepted: merges of its tokens into its tokens", token));
    merges_.emplace(pair_of(*vocabulary_.find(a), *vocabulary_.find(b)), Merge{rank++, *vocabulary_.find(joined)});
  }
}

std::vector<std::int64_t> BytePairs::encode(std::string_view text) const {
  std::vector<std::int64_t> out;
  const auto plain = [&](std::string_view part) {
    const std::u32string all = code_points(part);
    std::string bytes;
    for (std::size_t i = 0; i < all.size();) {
      const std::size_t end = end_of_word(all, i);
      bytes.clear();
      for (; i < end; ++i) append_utf8(bytes, all[i]);
      append_word(out, bytes);
    }
  };
  special_.cut(text, plain, [&](std::int64_t id) { out.push_back(id); });
  return out;
}

/// The pair that is merged is always the one of the smallest rank, the first of these.
void BytePairs::append_word(std::vector<std::int64_t>& out, std::string_view bytes) const {
  std::vector<std::int64_t> parts;
  for (const char b : bytes)
    if (const std::int64_t id = byte_ids_[static_cast<unsigned char>(b)]; id >= 0) parts.push_back(id);
  for (;;) {
    const Merge* best = nullptr;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto it = merges_.find(pair_of(parts[i], parts[i + 1]));
      if (it == merges_.end() || (best && it->second.rank >= best->rank)) continue;
      best = &it->second;
      at = i;
    }
    if (!best) break;
    parts[at] = best->into;
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  out.insert(out.end(), parts.begin(), parts.end());
}

Tokens BytePairs::for_model(std::string_view text, std::optional<std::string_view> second, std::int64_t longest) const {
  if (second) throw UsageError("tokenizer: two texts are given to byte pairs; accepted: one");
  Tokens out{encode(text), {}};
  if (std::ssize(out.ids) > longest) out.ids.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, longest)));
  out.types.assign(out.ids.size(), 0);
  return out;
}

std::string BytePairs::decode(const std::vector<std::int64_t>& ids) const {
  std::string out;
  for (const std::int64_t id : ids) {
    const std::string& token = vocabulary_.token(id);
    const std::u32string letters = code_points(token);
    if (std::ranges::any_of(letters, [](char32_t c) { return byte_of(c) < 0; })) {
      out += token;
      continue;
    }
    for (const char32_t c : letters) out.push_back(static_cast<char>(byte_of(c)));
  }
  return out;
}

TextEnds BytePairs::ends() const {
  const auto end = vocabulary_.find("<|endoftext|>");
  if (!end) throw DataError("vocabulary: it has no <|endoftext|>; accepted: one that has, to begin and end what a model writes");
  return {*end, *end};
}

}  // namespace gemel::datasets
