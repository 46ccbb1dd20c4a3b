// Classes of the characters that speech recognition writes: 0 is the blank of CTC, 1 a space, 2 an apostrophe, 3 to 28 are a to z.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gemel::datasets {

inline constexpr std::int64_t kBlank = 0, kCharacterClasses = 29;

/// Converts a transcript to lower case with one space between words. Only ASCII letters are accepted.
/// @throws DataError for any other character (names the first), for invalid UTF-8, and if no character is left
std::string spelled(std::string_view transcript);
/// Returns the class of a character, 1..kCharacterClasses-1.
/// @param c  a character that `spelled` returns
std::int64_t class_of(char c);
/// Converts classes to text.
/// @param classes  1..kCharacterClasses-1 each
std::string text_of(std::span<const std::int64_t> classes);

/// Returns the least length of a class sequence that CTC reads as the text: one class a character, and a blank between two equal ones.
std::int64_t least_classes(std::string_view text);

}  // namespace gemel::datasets
