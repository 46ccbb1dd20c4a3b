#include "engine/base/accepted.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/text/edit_distance.h"

namespace gemel {

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t least = std::max<std::size_t>(3, word.size() / 2);
  for (const std::string& c : candidates)
    if (const std::size_t d = edit_distance(word, c); d < least) {
      least = d;
      best = c;
    }
  return best;
}

void check_choice(const std::string& option, const std::string& given, const std::vector<std::string>& accepted) {
  if (std::find(accepted.begin(), accepted.end(), given) != accepted.end()) return;
  const std::string near = nearest(given, accepted);
  throw UsageError(
      fmt::format("{}: '{}' is not accepted{}; accepted: {}", option, given, near.empty() ? "" : ", did you mean '" + near + "'?", fmt::join(accepted, ", ")));
}

void check_range(const std::string& option, double value, double low, double high) {
  if (value >= low && value <= high) return;
  const auto text = [](double v) { return v == std::floor(v) && std::abs(v) < 1e19 ? fmt::format("{:.0f}", v) : fmt::format("{}", v); };
  throw UsageError(fmt::format("{}: {} is out of range; accepted: {} to {}", option, text(value), text(low), text(high)));
}

std::vector<std::int64_t> parse_extents(const std::string& option, const std::string& text, std::string_view like, std::int64_t most) {
  const std::ptrdiff_t count = std::ranges::count(like, 'x') + 1;
  std::vector<std::int64_t> out;
  const char *at = text.data(), *end = text.data() + text.size();
  while (at < end) {
    std::int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 1 || value > most || (next < end && *next != 'x')) break;
    out.push_back(value);
    at = next < end ? next + 1 : next;
  }
  if (at != end || text.empty() || text.back() == 'x' || std::ssize(out) != count)
    throw UsageError(fmt::format("{}: '{}' is not accepted; accepted: {} extents from 1 to {}, such as {}", option, text, count, most, like));
  return out;
}

std::vector<std::string> split_at_commas(const std::string& list) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    out.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

std::vector<std::int64_t> parse_numbers(const std::string& option, const std::string& text, std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> out;
  for (const std::string& word : split_at_commas(text)) {
    const char* end = word.data() + word.size();
    const auto [next, error] = std::from_chars(word.data(), end, out.emplace_back());
    if (error != std::errc() || next != end || out.back() < low || out.back() > high)
      throw UsageError(fmt::format("{}: '{}' is not accepted; accepted: whole numbers from {} to {}, such as 1,8,16", option, word, low, high));
  }
  return out;
}

}  // namespace gemel
