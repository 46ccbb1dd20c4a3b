// How far two words are apart, for "did you mean".
#pragma once
#include <cstddef>
#include <string_view>

namespace gemel {

/// Letters to insert, delete or replace to make one of the other. Source: V. I. Levenshtein, 1966.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace gemel
