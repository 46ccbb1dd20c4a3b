// Dead code: removes instructions on which no output, no write to external memory and no State outside of the program depends.
#include <algorithm>

#include "engine/base/numbers.h"
#include "engine/passes/passes.h"

namespace gemel {
namespace {

/// Whether it does something that the program does not see: tells somebody, sends.
bool works_with_state(const Program::Instruction& step) {
  return std::ranges::any_of(step.attributes.entries(), [](const auto& entry) { return type_of(entry.second) == Type::state; });
}

}  // namespace

Program eliminate_dead_code(Session&, Program program) {
  std::vector<bool> needed(program.slots.size(), false);
  for (const auto& u : program.outputs) needed[at(u.slot)] = true;
  for (std::size_t s = 0; s < program.slots.size(); ++s)
    if (program.slots[s].external) needed[s] = true;               // a parameter outlives the run
  for (const auto& u : program.inputs) needed[at(u.slot)] = true;  // so may what was fed
  std::vector<Program::Instruction> kept;
  for (auto step = program.code.rbegin(); step != program.code.rend(); ++step) {
    bool live = works_with_state(*step);
    for (const auto& u : step->outputs) live = live || needed[at(u.slot)];
    for (int w : step->op->writes) live = live || needed[at(step->inputs[at(w)].slot)];
    if (!live) continue;
    for (const auto& u : step->inputs) needed[at(u.slot)] = true;
    kept.push_back(std::move(*step));
  }
  program.code.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  return program;
}

}  // namespace gemel
