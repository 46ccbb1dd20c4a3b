// What a person is told of a run, on standard error.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace gemel::cli {

/// Whether this thread speaks: of a job of several ranks, which may be threads, the first does. Errors are told in any case.
inline bool& speaks() {
  thread_local bool is_first = true;
  return is_first;
}

/// A terminal that has gone, a closed pipe or a full disk takes the words and not the run.
template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (!speaks()) return;
  const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace gemel::cli
