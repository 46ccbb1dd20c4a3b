// Shared by the writer and the reader of graph files: names, versions, the parsed form.
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

/// Name under which the contents of a slot are saved: the slot's name, or one made of its number.
inline std::string tensor_name(const Program& program, std::size_t slot) {
  const std::string& name = program.slots[slot].name;
  return name.empty() ? "constant." + std::to_string(slot) : name;
}

/// Path of the tensors of a graph file, and of the tensors of the previous save, which exist until a save is complete.
inline std::filesystem::path tensors_beside(std::filesystem::path graph) { return graph.replace_extension(".safetensors"); }
inline std::filesystem::path last_tensors_beside(std::filesystem::path graph) { return graph.replace_extension(".last.safetensors"); }
/// True if the graph file belongs to the tensors of the previous save, because a later save was interrupted.
bool is_saved_with_last_tensors(const std::filesystem::path& graph);

/// Content of a graph file before memory is allocated.
struct ParsedGraph {
  SavedGraph saved;
  std::string checksum;              // of the file of tensors
  std::string structure;             // checksum_of_structure when the file was written
  std::vector<std::string> tensors;  // [slot] name in the safetensors file; "" if it has no contents there
  /// External memory that begins as zeros, or is a range of the memory of another slot.
  struct Outside {
    bool zeros;
    std::int64_t slab, page;
  };
  std::vector<Outside> memory;  // [slot]
};

/// Parses a graph file. @throws DataError if it is invalid
ParsedGraph parse_graph(std::string_view json);
/// Checksum of the part of a graph file that begins with its slots, 16 hexadecimal digits.
std::string checksum_of_structure(std::string_view json);

/// Largest depth of programs nested in programs; files that nest deeper are refused.
inline constexpr int kMostNesting = 32;

}  // namespace gemel
