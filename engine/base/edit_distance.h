// How far two words, or two lists of words, are apart.
#pragma once
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace gemel {

/// Elements to insert, delete or replace to make one of the other. Time: the product of their lengths. Source: V. I. Levenshtein, 1966.
template <class T>
std::size_t edit_distance(std::span<const T> a, std::span<const T> b) {
  std::vector<std::size_t> row(b.size() + 1);  // distances of a's beginning to all beginnings of b
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + !(a[i] == b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row.back();
}

/// Letters, for "did you mean".
inline std::size_t edit_distance(std::string_view a, std::string_view b) { return edit_distance(std::span<const char>(a), std::span<const char>(b)); }

}  // namespace gemel
