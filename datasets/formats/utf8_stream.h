// Decodes UTF-8 that arrives in pieces, which may end within a character.
#pragma once
#include <string>
#include <string_view>

namespace gemel::datasets {

/// Joins pieces of UTF-8 into valid text. Invalid bytes become U+FFFD, one for each longest prefix of a character (Unicode 15, section 3.9; errors="replace" in
/// Python).
class Utf8Pieces {
 public:
  /// Adds the next bytes. @return the characters that are complete by now; an incomplete one waits for the next call
  std::string add(std::string_view bytes);
  /// Ends the text. @return U+FFFD if a character is incomplete, else nothing
  std::string end();

 private:
  std::string begun_;
};

}  // namespace gemel::datasets
