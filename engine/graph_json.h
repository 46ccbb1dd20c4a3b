// What the writer and the reader of graph files share.
#pragma once
#include <string>
#include <string_view>

#include "engine/program.h"

namespace gemel {

inline constexpr std::string_view kGraphFormat = "gemel-graph";
inline constexpr int kGraphVersion = 1;

/// The name under which a slot's contents are saved: its own, or one made from its number.
inline std::string tensor_name(const Program& program, std::size_t slot) {
  const std::string& name = program.slots[slot].name;
  return name.empty() ? "constant." + std::to_string(slot) : name;
}

/// Programs in programs, at most so deep: a file that nests deeper is refused, not followed.
inline constexpr int kMostNesting = 32;

}  // namespace gemel
