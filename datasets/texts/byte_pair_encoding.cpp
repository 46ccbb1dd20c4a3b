#include "datasets/texts/byte_pair_encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "datasets/formats/lines.h"
#include "datasets/formats/unicode.h"
#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/files/git_lfs.h"
#include "engine/base/numbers.h"

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

BytePairs::BytePairs(Vocabulary vocabulary, const std::vector<std::string>& special) : vocabulary_(std::move(vocabulary)), special_(vocabulary_, special) {
  for (std::size_t b = 0; b < byte_ids_.size(); ++b) byte_ids_[b] = vocabulary_.find(utf8_of(std::u32string_view(&byte_letters()[b], 1))).value_or(-1);
}

BytePairs::BytePairs(const std::filesystem::path& vocabulary, const std::filesystem::path& merges)
    : BytePairs(Vocabulary::of_json(vocabulary), std::vector<std::string>{"<|endoftext|>"}) {
  read_merges(merges);
}

BytePairs::BytePairs(Vocabulary vocabulary, const Merges& merges, const std::vector<std::string>& special) : BytePairs(std::move(vocabulary), special) {
  for (const auto& [a, b] : merges) {
    try {
      add_merge(a, b);
    } catch (const DataError& e) {
      throw DataError(fmt::format("merge {} (from 0): {}", next_rank_, e.what()));
    }
  }
}

bool BytePairs::has_all_bytes() const { return std::ranges::find(byte_ids_, -1) == byte_ids_.end(); }

/// Of a pair that is there twice the last one counts.
void BytePairs::add_merge(std::string_view a, std::string_view b) {
  const std::string joined = std::string(a) + std::string(b);
  for (const std::string_view token : {a, b, std::string_view(joined)})
    if (!vocabulary_.find(token)) throw DataError(fmt::format("the vocabulary has no token '{}'; accepted: merges of its tokens into its tokens", token));
  merges_.insert_or_assign(pair_of(*vocabulary_.find(a), *vocabulary_.find(b)), Merge{next_rank_++, narrow<std::uint32_t>(*vocabulary_.find(joined))});
}

void BytePairs::read_merges(const std::filesystem::path& file) {
  const std::vector<std::byte> content = read_fetched(file);
  each_line(as_text(content), [&](std::string_view line, std::int64_t number) {
    if (line.starts_with("#version") || line.empty()) return true;
    const std::size_t space = line.find(' ');
    try {
      if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
        throw DataError(fmt::format("'{}'; accepted: two tokens with a space between", line));
      add_merge(line.substr(0, space), line.substr(space + 1));
    } catch (const DataError& e) {
      throw DataError(fmt::format("merges: {}, line {}: {}", file.string(), number, e.what()));
    }
    return true;
  });
}

std::vector<std::int64_t> BytePairs::encode(std::string_view text) const {
  std::vector<std::int64_t> out;
  Scratch scratch;
  const auto plain = [&](std::string_view part) {
    const std::u32string all = code_points(part);
    std::string bytes;
    for (std::size_t i = 0; i < all.size();) {
      const std::size_t end = end_of_word(all, i);
      bytes.clear();
      for (; i < end; ++i) append_utf8(bytes, all[i]);
      append_word(out, bytes, scratch);
    }
  };
  special_.cut(text, plain, [&](std::int64_t id) { out.push_back(id); });
  return out;
}

/// Takes note of what a part and the one behind it may become.
void BytePairs::note_joint(std::uint32_t first, Scratch& scratch) const {
  auto& [parts, joints] = scratch;
  Part& part = parts[first];
  part.rank = kNone;
  if (part.after == parts.size()) return;
  const auto it = merges_.find(pair_of(part.token, parts[part.after].token));
  if (it == merges_.end()) return;
  part.rank = it->second.rank;
  part.into = it->second.into;
  joints.push_back(std::uint64_t{part.rank} << 32 | first);
  std::push_heap(joints.begin(), joints.end(), std::greater<>());
}

/// The pair that is merged is always the one of the smallest rank, the first of these: they wait in a heap, and what a part could once become is passed over.
void BytePairs::append_word(std::vector<std::int64_t>& out, std::string_view bytes, Scratch& scratch) const {
  auto& [parts, joints] = scratch;
  parts.clear();
  joints.clear();
  if (bytes.size() >= kNone) throw DataError(fmt::format("text: a word of {} bytes; accepted: below {}", bytes.size(), kNone));
  for (const char b : bytes) {
    const auto i = static_cast<std::uint32_t>(parts.size());
    if (const std::int64_t id = byte_ids_[static_cast<unsigned char>(b)]; id >= 0) parts.push_back({id, i - 1, i + 1, kNone, 0});
  }
  for (std::uint32_t i = 0; i < parts.size(); ++i) note_joint(i, scratch);
  while (!joints.empty()) {
    std::pop_heap(joints.begin(), joints.end(), std::greater<>());
    const auto at = static_cast<std::uint32_t>(joints.back()), rank = static_cast<std::uint32_t>(joints.back() >> 32);
    joints.pop_back();
    Part& first = parts[at];
    if (first.rank != rank) continue;
    Part& second = parts[first.after];
    first.token = first.into;
    first.after = second.after;
    second.token = -1;
    second.rank = kNone;
    if (first.after < parts.size()) parts[first.after].before = at;
    if (at > 0) note_joint(first.before, scratch);
    note_joint(at, scratch);
  }
  for (const Part& p : parts)
    if (p.token >= 0) out.push_back(p.token);
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
