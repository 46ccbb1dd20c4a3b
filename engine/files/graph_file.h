// Saving and loading of graphs: the program as readable JSON, variables and constants as a safetensors file beside it; drawing with Graphviz.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/capture/program.h"

namespace gemel {

/// Names that a front end gives to parts of a program.
struct GraphNames {
  std::string graph;  // name of the graph
  std::map<std::string, Program::Use> values;
  std::map<std::string, std::vector<int>> operations;  // instructions that are run for their side effects
  std::vector<std::string> parameters, buffers;        // variables, by name
  std::map<std::string, Attributes> settings;          // further data of the front end
};

struct SavedGraph {
  Program program;
  GraphNames names;
};

/// Writes a program as JSON without the contents of tensors, one line for each instruction: slots with names; instructions with operator, attributes,
/// scope, inputs and outputs.
/// @throws UsageError for an operator that is not in the catalog, such as a fused one or one with a State
std::string to_json(const Program& program, const GraphNames& names = {});

/// Saves a graph: `path` (JSON) and, beside it, `path` with the extension .safetensors, which holds variables and constants by name. Waits for the device.
/// After an interrupted save the previous graph still loads, from `path` with the extension .last.safetensors.
/// @throws UsageError as to_json
/// @throws DataError if a file cannot be written
void save_graph(const Program& program, const std::filesystem::path& path, const GraphNames& names = {});

/// Loads a graph and verifies its program. Variables become new tensors of the session.
/// @throws DataError naming the file if it is invalid, or if the two files are of different saves
SavedGraph load_graph(Session& session, const std::filesystem::path& path);

/// Program in the language of Graphviz: a box for each instruction, a cluster for each scope, edges labelled with specs.
std::string to_dot(const Program& program);

}  // namespace gemel
