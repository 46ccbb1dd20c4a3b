// Words of a text.
#pragma once
#include <string_view>
#include <vector>

namespace gemel::train {

/// What white space (ASCII's) separates, as views of the text.
std::vector<std::string_view> words_of(std::string_view text);

}  // namespace gemel::train
