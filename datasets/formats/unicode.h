// Unicode: code points of UTF-8, and what kind they are, by utf8proc.
#pragma once
#include <string>
#include <string_view>

namespace gemel::datasets {

/// @throws DataError naming the first byte that is not UTF-8: overlong forms, surrogates and what lies above U+10FFFF are not
std::u32string code_points(std::string_view utf8);
void append_utf8(std::string& out, char32_t c);
std::string utf8_of(std::u32string_view text);

/// The property White_Space.
bool is_white_space(char32_t c);
/// Categories C: controls, formats, private use, unassigned.
bool is_other(char32_t c);
/// Categories P.
bool is_punctuation(char32_t c);
/// Categories L.
bool is_letter(char32_t c);
/// Categories N.
bool is_number(char32_t c);
/// Category Mn.
bool is_nonspacing_mark(char32_t c);

/// Its canonical decomposition, in canonical order (NFD).
std::u32string decomposed(std::u32string_view text);
/// In lower case, by the mapping that keeps one code point one; but U+0130, which becomes i and a dot above.
void append_lower(std::u32string& out, char32_t c);

}  // namespace gemel::datasets
