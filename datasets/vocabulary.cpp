#include "datasets/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "datasets/unicode.h"
#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/base/json_text.h"

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
  const std::vector<std::byte> content = read_whole(file);
  const std::string_view text = as_text(content);
  Vocabulary out;
  for (std::size_t begin = 0, line = 1; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const auto refuse = [&](const std::string& why) { throw DataError(fmt::format("vocabulary: {}, line {}: {}", file.string(), line, why)); };
    std::string_view token;
    try {
      token = without_white_space_behind(text.substr(begin, end - begin));
    } catch (const DataError& e) {
      refuse(e.what());
    }
    if (!out.ids_.emplace(token, out.size()).second) refuse(fmt::format("'{}' is there already, as line {}; accepted: each token once", token, *out.find(token) + 1));
    out.tokens_.emplace_back(token);
    begin = end + 1;
  }
  if (out.tokens_.empty()) throw DataError(fmt::format("vocabulary: {} is empty; accepted: a token a line", file.string()));
  return out;
}

Vocabulary Vocabulary::of_json(const std::filesystem::path& file) {
  const std::vector<std::byte> content = read_whole(file);
  const auto refuse = [&](const std::string& why) { throw DataError(fmt::format("vocabulary: {}: {}; accepted: an object of tokens and their numbers, from 0 on", file.string(), why)); };
  const auto json = nlohmann::json::parse(as_text(content), nullptr, false);
  if (json.is_discarded() || !json.is_object()) refuse("it is no JSON object");
  Vocabulary out;
  out.tokens_.resize(json.size());
  std::vector<bool> taken(json.size(), false);
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_integer() || id < 0 || id >= static_cast<std::int64_t>(json.size())) refuse(fmt::format("'{}' has the number {} of {} tokens", token, message_text(id), json.size()));
    const auto place = id.get<std::size_t>();
    if (taken[place]) refuse(fmt::format("'{}' has the number {}, as another one has", token, place));
    taken[place] = true;
    out.tokens_[place] = token;
    out.ids_.emplace(token, static_cast<std::int64_t>(place));
  }
  if (out.tokens_.empty()) refuse("it is empty");
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
    if (const auto id = vocabulary.find(t)) tokens_.emplace_back(t, *id);
  std::ranges::stable_sort(tokens_, std::greater<>(), [](const auto& t) { return t.first.size(); });
}

void SpecialTokens::cut(std::string_view text, const std::function<void(std::string_view)>& plain, const std::function<void(std::int64_t)>& special) const {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto found = std::ranges::find_if(tokens_, [&](const auto& t) { return text.substr(i).starts_with(t.first); });
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
