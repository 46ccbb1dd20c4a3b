// Splits text into lines, whichever line ends it has: LF, CRLF or CR.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>

namespace gemel::datasets {

/// Removes a UTF-8 byte-order mark from the beginning of a text.
inline std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

/// Calls take(line, number) for each line, numbered from 1, until it returns false. A line ends with LF or CRLF; in a text that has no LF at all, with CR. A
/// byte-order mark at the beginning of the text is skipped.
template <class Take>
void each_line(std::string_view text, const Take& take) {
  text = without_mark(text);
  const char end_of_line = text.find('\n') == std::string_view::npos ? '\r' : '\n';
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(end_of_line, begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!take(line, ++number)) return;
  }
}

/// Removes trailing lines that hold only spaces.
inline std::string_view without_blank_end(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \r\n");
  if (last == std::string_view::npos) return {};
  return text.substr(0, std::min(text.find_first_of("\r\n", last), text.size()));
}

}  // namespace gemel::datasets
