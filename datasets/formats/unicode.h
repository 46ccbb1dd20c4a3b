// Unicode code points of UTF-8 text and their properties, by utf8proc.
#pragma once
#include <string>
#include <string_view>

namespace gemel::datasets {

/// Decodes UTF-8.
/// @throws DataError at the first invalid byte; overlong forms, surrogates and code points above U+10FFFF are invalid
std::u32string code_points(std::string_view utf8);
void append_utf8(std::string& out, char32_t c);
/// Encodes code points as UTF-8.
std::string utf8_of(std::u32string_view text);

/// Tells if c has the property White_Space.
bool is_white_space(char32_t c);
/// Tells if c is of a category C: control, format, private use, surrogate or unassigned.
bool is_other(char32_t c);
/// Tells if c is of a category P.
bool is_punctuation(char32_t c);
/// Tells if c is of a category L.
bool is_letter(char32_t c);
/// Tells if c is of a category N.
bool is_number(char32_t c);
/// Tells if c is of category Mn.
bool is_nonspacing_mark(char32_t c);

/// Returns the canonical decomposition in canonical order (NFD).
std::u32string decomposed(std::u32string_view text);
/// Appends c in lower case, by the mapping that keeps one code point one; only U+0130 becomes two, i and a combining dot above.
void append_lower(std::u32string& out, char32_t c);

}  // namespace gemel::datasets
