// Prints messages about a run on standard error.
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

/// Prints a message if this thread prints. A lost terminal, a closed pipe or a full disk loses the message, but does not fail the run.
template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (!speaks()) return;
  const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace gemel::cli
