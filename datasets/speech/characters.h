// The characters that a recogniser of speech writes, and their classes: 0 is the blank of connectionist temporal classification, 1 a space, 2 an apostrophe,
// 3 to 28 are a to z.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gemel::datasets {

inline constexpr std::int64_t kBlank = 0, kCharacterClasses = 29;

/// A transcript in lower case, with one space between its words. Letters are ASCII's.
/// @throws DataError for other characters, naming the first, for text that is not UTF-8, and where no character is left
std::string spelled(std::string_view transcript);
/// 1..kCharacterClasses-1. @param c  of what `spelled` gives
std::int64_t class_of(char c);
/// @param classes  1..kCharacterClasses-1 each
std::string text_of(std::span<const std::int64_t> classes);

/// Classes that stand for a text at least: one a character, and a blank between two that are equal.
std::int64_t least_classes(std::string_view text);

}  // namespace gemel::datasets
