#include "datasets/texts/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "datasets/formats/lines.h"
#include "datasets/formats/unicode.h"
#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/files/git_lfs.h"
#include "engine/base/text/json_text.h"

namespace gemel::datasets {
namespace {

std::string_view without_white_space_behind(std::string_view line) {
  const std::u32string all = code_points(line);
  std::size_t end = all.size();
  while (end > 0 && is_white_space(all[end - 1])) --end;
  return line.substr(0, utf8_of(std::u32string_view(all).substr(0, end)).size());
}

}  // namespace

Vocabulary Vocabulary::of_lines(const std::filesystem::path& file) {
  const std::vector<std::byte> content = read_fetched(file);
  Vocabulary out;
  each_line(without_blank_end(as_text(content)), [&](std::string_view line, std::int64_t number) {
    try {
      const std::string_view token = without_white_space_behind(line);
      out.ids_.insert_or_assign(std::string(token), out.size());
      out.tokens_.emplace_back(token);
    } catch (const DataError& e) {
      throw DataError(fmt::format("vocabulary: {}, line {}: {}", file.string(), number, e.what()));
    }
    return true;
  });
  if (out.tokens_.empty()) throw DataError(fmt::format("vocabulary: {} is empty; accepted: a token a line", file.string()));
  return out;
}

namespace {

[[noreturn]] void refuse_numbers(const std::filesystem::path& file, const std::string& why) {
  throw DataError(fmt::format("vocabulary: {}: {}; accepted: an object of tokens and their numbers, from 0 on", file.string(), why));
}

}  // namespace

Vocabulary Vocabulary::of_json(const std::filesystem::path& file) {
  const std::vector<std::byte> content = read_fetched(file);
  const auto json = nlohmann::json::parse(as_text(content), nullptr, false);
  if (json.is_discarded() || !json.is_object()) refuse_numbers(file, "it is no JSON object");
  std::vector<std::pair<std::string, std::int64_t>> tokens;
  tokens.reserve(json.size());
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_integer()) refuse_numbers(file, fmt::format("'{}' has the number {} of {} tokens", token, message_text(id), json.size()));
    tokens.emplace_back(token, id.get<std::int64_t>());
  }
  return of_numbers(std::move(tokens), Gaps::refused, file);
}

Vocabulary Vocabulary::of_numbers(std::vector<std::pair<std::string, std::int64_t>> tokens, Gaps gaps, const std::filesystem::path& file) {
  constexpr std::int64_t kMostMissing = 1 << 20;  // of a file that says anything
  const std::int64_t count = std::ssize(tokens), most = gaps == Gaps::accepted ? count + kMostMissing : count;
  if (count == 0) refuse_numbers(file, "it is empty");
  std::int64_t size = count;
  for (const auto& [token, id] : tokens)
    if (id < most) size = std::max(size, id + 1);
  Vocabulary out;
  out.tokens_.resize(static_cast<std::size_t>(size));
  std::vector<bool> taken(out.tokens_.size(), false);
  for (auto& [token, id] : tokens) {
    if (id < 0 || id >= size) refuse_numbers(file, fmt::format("'{}' has the number {} of {} tokens", token, id, count));
    const auto place = static_cast<std::size_t>(id);
    if (taken[place]) refuse_numbers(file, fmt::format("'{}' has the number {}, as another one has", token, place));
    taken[place] = true;
    out.ids_.emplace(token, id);
    out.tokens_[place] = std::move(token);
  }
  return out;
}

std::optional<std::int64_t> Vocabulary::find(std::string_view token) const {
  const auto it = ids_.find(token);
  return it == ids_.end() ? std::nullopt : std::optional(it->second);
}

const std::string& Vocabulary::token(std::int64_t id) const {
  if (id < 0 || id >= size()) throw UsageError(fmt::format("vocabulary: there is no token {}; accepted: 0 to {}", id, size() - 1));
  return tokens_[static_cast<std::size_t>(id)];
}

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary, const std::vector<std::string>& tokens) {
  for (const std::string& t : tokens)
    if (const auto id = vocabulary.find(t); id && !t.empty()) {
      tokens_.emplace_back(t, *id);
      begins_.set(static_cast<unsigned char>(t[0]));
    }
  std::ranges::stable_sort(tokens_, std::greater<>(), [](const auto& t) { return t.first.size(); });
}

void SpecialTokens::cut(std::string_view text, const std::function<void(std::string_view)>& plain, const std::function<void(std::int64_t)>& special) const {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto found = begins_.test(static_cast<unsigned char>(text[i]))
                           ? std::ranges::find_if(tokens_, [&](const auto& t) { return text.substr(i).starts_with(t.first); })
                           : tokens_.end();
    if (found == tokens_.end()) {
      ++i;
      continue;
    }
    if (i > begin) plain(text.substr(begin, i - begin));
    special(found->second);
    begin = i += found->first.size();
  }
  if (begin < text.size()) plain(text.substr(begin));
}

}  // namespace gemel::datasets
