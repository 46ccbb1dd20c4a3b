// Prints messages about a run: on standard error, but for a rank whose launcher has both streams end in one place.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace gemel::cli {

/// True if this thread prints: in a job of several ranks, which may be threads, only the first does. Errors are always printed.
inline bool& speaks() {
  thread_local bool is_first = true;
  return is_first;
}

/// Where messages go.
inline std::FILE*& message_stream() {
  static std::FILE* stream = stderr;
  return stream;
}

/// Prints a message if this thread prints. A lost terminal, a closed pipe or a full disk loses the message, but does not fail the run.
template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (!speaks()) return;
  const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
  std::fwrite(text.data(), 1, text.size(), message_stream());
  if (message_stream() != stderr) std::fflush(message_stream());
}

}  // namespace gemel::cli
