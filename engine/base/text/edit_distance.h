// Levenshtein distance of two strings, or of two lists of words.
#pragma once
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace gemel {

/// Edit distance if it is at most `limit`, else empty. Computes only the band of the table that a path within the limit can touch.
/// @param a      not longer than b
/// @param limit  at least the difference of the lengths
template <class T>
std::optional<std::size_t> edit_distance_within(std::span<const T> a, std::span<const T> b, std::size_t limit) {
  const std::size_t longer = b.size() - a.size(), beside = (limit - longer) / 2, beyond = a.size() + b.size() + 1;
  std::vector<std::size_t> row(b.size() + 1, beyond);  // distances of a prefix of a to the prefixes of b; `beyond`: outside the band
  std::iota(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(std::min(longer + beside, b.size()) + 1), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::size_t first = i >= beside ? i - beside : 0, last = std::min(b.size(), i + 1 + longer + beside);
    std::size_t diagonal = std::exchange(row[first], first == 0 && i < beside ? i + 1 : beyond);
    for (std::size_t j = first; j < last; ++j) {
      const std::size_t replaced = diagonal + !(a[i] == b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row.back() <= limit ? std::optional(row.back()) : std::nullopt;
}

/// Number of elements to insert, delete or replace to turn one sequence into the other.
/// Time: the sum of the lengths times the distance, at most 1.5 times the product of the lengths.
/// Source: V. I. Levenshtein, 1966; E. Ukkonen, Algorithms for approximate string matching, 1985
template <class T>
std::size_t edit_distance(std::span<const T> a, std::span<const T> b) {
  while (!a.empty() && !b.empty() && a.front() == b.front()) a = a.subspan(1), b = b.subspan(1);
  while (!a.empty() && !b.empty() && a.back() == b.back()) a = a.first(a.size() - 1), b = b.first(b.size() - 1);
  if (a.size() > b.size()) std::swap(a, b);
  const std::size_t most = b.size();
  for (std::size_t limit = std::min(most, b.size() - a.size() + 1);; limit = limit >= most / 4 ? most : 2 * limit)
    if (const auto distance = edit_distance_within(a, b, limit)) return *distance;
}

/// Edit distance of two strings by characters.
inline std::size_t edit_distance(std::string_view a, std::string_view b) { return edit_distance(std::span<const char>(a), std::span<const char>(b)); }

}  // namespace gemel
