// Checks of what a user gave, with the same words everywhere: what was given, and what is accepted.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gemel {

/// Returns the candidate nearest to a word by edit distance, or an empty string where none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// @param option  as messages name it: "--model"
/// @throws UsageError `option: 'given' is not accepted; accepted: a, b, c`, with the nearest
void check_choice(const std::string& option, const std::string& given, const std::vector<std::string>& accepted);
/// @throws UsageError unless low <= value <= high
void check_range(const std::string& option, double value, double low, double high);

/// Splits "a,b" at its commas.
std::vector<std::string> split_at_commas(const std::string& list);
/// Parses whole numbers with commas between them, such as "1,8,16". @throws UsageError unless each is one of low..high
std::vector<std::int64_t> parse_numbers(const std::string& option, const std::string& text, std::int64_t low, std::int64_t high);
/// Parses extents such as "3x32x32". @param like  an example, with as many extents as are accepted  @throws UsageError unless each is one of 1..most
std::vector<std::int64_t> parse_extents(const std::string& option, const std::string& text, std::string_view like = "3x32x32", std::int64_t most = 65536);

}  // namespace gemel
