// Programs in files: the structure as JSON that a person can read, variables and constants as safetensors beside it, and a
// drawing for Graphviz.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/capture/program.h"

namespace gemel {

/// What a front end knows a program's parts by.
struct GraphNames {
  std::string graph;  // its own name
  std::map<std::string, Program::Use> values;
  std::map<std::string, std::vector<int>> operations;  // instructions that are run for what they do
  std::vector<std::string> parameters, buffers;        // values that last from run to run
  std::map<std::string, Attributes> settings;          // numbers and texts that the front end keeps
};

struct SavedGraph {
  Program program;
  GraphNames names;
};

/// The structure: slots with their names, instructions with operator, attributes, scope, inputs and outputs with their specs.
/// One line an instruction.
/// @throws UsageError for an operator that is not in the catalog (a fused one, one with a State): accepted are the catalog's
std::string to_json(const Program& program, const GraphNames& names = {});

/// Writes `path` (JSON) and, beside it, `path` with the extension .safetensors: variables and constants under their names.
/// Where a save is cut short, the files load as they were before it; meanwhile `path` with .last.safetensors is there too.
/// Waits for the device. @throws UsageError as to_json  @throws DataError where a file cannot be written
void save_graph(const Program& program, const std::filesystem::path& path, const GraphNames& names = {});

/// Reads both files; variables are new tensors in the session. The program is verified.
/// @throws DataError naming the file and what is wrong with it; for files of two saves
SavedGraph load_graph(Session& session, const std::filesystem::path& path);

/// Graphviz: one box an instruction, a cluster a scope, edges labelled with specs.
std::string to_dot(const Program& program);

}  // namespace gemel
