// A program in the language of Graphviz.
#include <fmt/format.h>

#include <map>

#include "engine/base/numbers.h"
#include "engine/files/graph_file.h"

namespace gemel {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace

std::string to_dot(const Program& program) {
  std::map<std::string, std::string> scopes;  // the boxes of each
  std::map<int, std::string> made_by;         // [slot]
  std::string edges;
  std::string nodes;
  const auto source = [&](const Program::Use& u) {
    const auto it = made_by.find(u.slot);
    if (it != made_by.end()) return it->second;
    const auto& slot = program.slots[at(u.slot)];
    const std::string id = fmt::format("slot{}", u.slot), name = slot.name.empty() ? id : slot.name;
    nodes += fmt::format("  {} [label={}, shape={}];\n", id, quoted(name + " " + to_string(u.spec)), slot.external ? "cylinder" : "ellipse");
    return made_by.emplace(u.slot, id).first->second;
  };
  for (const auto& u : program.inputs) source(u);
  for (std::size_t i = 0; i < program.code.size(); ++i) {
    const auto& step = program.code[i];
    const std::string id = fmt::format("step{}", i), attributes = to_string(step.attributes);
    scopes[step.scope] += fmt::format("    {} [label={}, shape=box];\n", id, quoted(step.op->name + (attributes.empty() ? "" : " " + attributes)));
    for (const auto& u : step.inputs) edges += fmt::format("  {} -> {} [label={}];\n", source(u), id, quoted(to_string(u.spec)));
    for (int before : step.after) edges += fmt::format("  step{} -> {} [style=dashed];\n", before, id);
    for (const auto& u : step.outputs) made_by[u.slot] = id;
  }
  for (std::size_t o = 0; o < program.outputs.size(); ++o) {
    nodes += fmt::format("  output{} [label={}, shape=ellipse];\n", o, quoted(fmt::format("output {}", o)));
    edges += fmt::format("  {} -> output{} [label={}];\n", source(program.outputs[o]), o, quoted(to_string(program.outputs[o].spec)));
  }
  std::string out = "digraph program {\n" + nodes;
  int cluster = 0;
  for (const auto& [scope, boxes] : scopes)
    out += scope.empty() ? boxes : fmt::format("  subgraph cluster_{} {{\n    label={};\n{}  }}\n", cluster++, quoted(scope), boxes);
  return out + edges + "}\n";
}

}  // namespace gemel
