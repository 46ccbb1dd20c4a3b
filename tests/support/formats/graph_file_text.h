// The text of graph files that tests change.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "engine/files/graph_json.h"

namespace gemel::testing {

/// Gives a changed text the checksum that it would have been written with, where it still has a place for one.
inline void sign(std::string& graph) {
  constexpr std::string_view kField = "\"structure\":";
  constexpr std::size_t kDigits = 16;
  const std::size_t field = graph.find(kField);
  if (field == std::string::npos) return;
  const std::size_t quote = graph.find('"', field + kField.size());
  if (quote != std::string::npos && quote + kDigits < graph.size()) graph.replace(quote + 1, kDigits, checksum_of_structure(graph));
}

}  // namespace gemel::testing
