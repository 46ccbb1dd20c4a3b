// What gemel doctor prints.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "frontends/cli/doctor/health_check.h"

namespace gemel::cli {

/// {"checks": [{"name", "status", "found", "remedy"}, ...]}
void print_json(const std::vector<Line>& lines);
/// A line for each, with its remedy below; in colours on a terminal, unless NO_COLOR is set.
void print_lines(const std::vector<Line>& lines);

/// Between words, so that no line is longer where it has a space; a longer word stands alone.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

}  // namespace gemel::cli
