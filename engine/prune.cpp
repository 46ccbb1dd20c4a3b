#include "engine/prune.h"

#include <algorithm>

#include "engine/base/span.h"

namespace gemel {
namespace {

/// Marks backwards: an instruction is seen after everything that could need it.
struct Marks {
  std::vector<bool> slots, instructions;

  Marks(const Program& program, const Wanted& wanted) : slots(program.slots.size(), false), instructions(program.code.size(), false) {
    for (const auto& u : wanted.values) slots[at(u.slot)] = true;
    for (int i : wanted.instructions) instructions[at(i)] = true;
    for (std::size_t i = program.code.size(); i-- > 0;) {
      const auto& step = program.code[i];
      const auto made_for = [&](const Program::Use& u) { return slots[at(u.slot)] && !program.slots[at(u.slot)].external; };
      bool needed = instructions[i] || std::any_of(step.outputs.begin(), step.outputs.end(), made_for);
      for (int w : step.op->writes) needed = needed || made_for(step.inputs[at(w)]);
      if (!needed) continue;
      instructions[i] = true;
      for (const auto& u : step.inputs) slots[at(u.slot)] = true;
      for (const auto& u : step.outputs) slots[at(u.slot)] = true;
      for (int before : step.after) instructions[at(before)] = true;
    }
  }
};

}  // namespace

Pruned prune(const Program& program, const Wanted& wanted) {
  const Marks needed(program, wanted);
  Pruned out;
  std::vector<int> renumbered(program.slots.size(), -1);
  for (std::size_t s = 0; s < program.slots.size(); ++s)
    if (needed.slots[s]) {
      renumbered[s] = static_cast<int>(out.program.slots.size());
      out.program.slots.push_back(program.slots[s]);
    }
  const auto renumber = [&](std::vector<Program::Use>& uses) {
    for (auto& u : uses) u.slot = renumbered[at(u.slot)];
  };
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    if (needed.slots[at(program.inputs[i].slot)]) {
      out.program.inputs.push_back(program.inputs[i]);
      out.inputs.push_back(i);
    }
  std::vector<int> moved(program.code.size(), -1);
  for (std::size_t i = 0; i < program.code.size(); ++i)
    if (needed.instructions[i]) {
      moved[i] = static_cast<int>(out.program.code.size());
      out.program.code.push_back(program.code[i]);
      auto& step = out.program.code.back();
      for (int& before : step.after) before = moved[at(before)];
      renumber(step.inputs);
      renumber(step.outputs);
    }
  out.program.outputs = wanted.values;
  renumber(out.program.inputs);
  renumber(out.program.outputs);
  return out;
}

}  // namespace gemel
