// Prints the findings of `gemel doctor`.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "frontends/cli/doctor/health_check.h"

namespace gemel::cli {

/// Prints {"checks": [{"name", "status", "found", "remedy"}, ...]}.
void print_json(const std::vector<Line>& lines);
/// Prints a line for each finding, with its remedy below; in colour on a terminal, unless NO_COLOR is set.
void print_lines(const std::vector<Line>& lines);

/// Wraps text at spaces to lines of at most `width` columns; a longer word has a line of its own.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

}  // namespace gemel::cli
