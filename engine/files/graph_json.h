// What the writer and the reader of graph files share.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/files/graph_file.h"
#include "engine/graph/capture/program.h"

namespace gemel {

inline constexpr std::string_view kGraphFormat = "gemel-graph";
inline constexpr int kGraphVersion = 2;

/// The name under which a slot's contents are saved: its own, or one made from its number.
inline std::string tensor_name(const Program& program, std::size_t slot) {
  const std::string& name = program.slots[slot].name;
  return name.empty() ? "constant." + std::to_string(slot) : name;
}

/// The tensors beside a graph's file; and, until a save is through, those of the save before it.
inline std::filesystem::path tensors_beside(std::filesystem::path graph) { return graph.replace_extension(".safetensors"); }
inline std::filesystem::path last_tensors_beside(std::filesystem::path graph) { return graph.replace_extension(".last.safetensors"); }
/// Whether a graph's file was saved with what are its last tensors now: a save after it was cut short.
bool is_saved_with_last_tensors(const std::filesystem::path& graph);

/// A file's structure, before its memory is there.
struct ParsedGraph {
  SavedGraph saved;
  std::string checksum;              // of the tensors' file
  std::string structure;             // checksum_of_structure of the text when it was written
  std::vector<std::string> tensors;  // [slot] in the safetensors file; "" where it has none
  /// Memory from outside that begins as zeros, or is a range of another slot's.
  struct Outside {
    bool zeros;
    std::int64_t slab, page;
  };
  std::vector<Outside> memory;  // [slot]
};

/// @throws DataError for what is wrong in it
ParsedGraph parse_graph(std::string_view json);
/// Of what stands in a file from its slots on: 16 hexadecimal digits.
std::string checksum_of_structure(std::string_view json);

/// Programs in programs, at most so deep: a file that nests deeper is refused, not followed.
inline constexpr int kMostNesting = 32;

}  // namespace gemel
