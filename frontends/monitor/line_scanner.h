// Reads one line of a run's record: the numbers of a flat object, without building a tree. A tenth of a parser's time, and no memory of its own.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

namespace gemel::monitor {

/// What a line holds. The texts lie in the line.
struct Line {
  std::string_view event;                                    // value of the key "event"; empty where there is none
  std::vector<std::pair<std::string_view, double>> numbers;  // members of the outermost object that are finite numbers, in order

  /// The value of a number, or `otherwise`.
  double number(std::string_view name, double otherwise) const;
};

/// Reads a line into `out`, whose memory is used again. Members that are no numbers are passed over, to any depth.
/// @return false if the line is no JSON object, as far as that is looked at: then `out` holds nothing of use
bool scan(std::string_view line, Line& out);

}  // namespace gemel::monitor
