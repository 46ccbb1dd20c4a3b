// Quotes words for a shell.
#pragma once
#include <string>
#include <string_view>

namespace gemel {

/// Returns the word as a shell reads it, in quotes if it needs them.
inline std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_./:,=+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace gemel
