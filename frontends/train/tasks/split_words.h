// Splits text into words.
#pragma once
#include <string_view>
#include <vector>

namespace gemel::train {

/// Returns the words between ASCII white space, as views of the text.
std::vector<std::string_view> words_of(std::string_view text);

}  // namespace gemel::train
