// UTF-8 that comes in pieces which need not end where its characters end.
#pragma once
#include <string>
#include <string_view>

namespace gemel::datasets {

/// What can be no part of UTF-8 becomes U+FFFD, one for each longest beginning of a character (Unicode 15, section 3.9; Python's "replace").
class Utf8Pieces {
 public:
  /// @return what is whole by now; a character that is begun waits for its end
  std::string add(std::string_view bytes);
  /// Ends the text. @return U+FFFD where a character was begun
  std::string end();

 private:
  std::string begun_;
};

}  // namespace gemel::datasets
