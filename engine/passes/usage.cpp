#include "engine/passes/usage.h"

#include "engine/base/span.h"

namespace gemel {

bool is_elementwise(const Program::Instruction& step) { return step.op->elementwise && step.outputs.size() == 1 && step.op->writes.empty(); }

std::vector<Usage> usage_of(const Program& program) {
  std::vector<Usage> out(program.slots.size());
  for (const auto& step : program.code)
    for (const auto& u : step.inputs) ++out[at(u.slot)].uses;
  for (const auto& u : program.outputs) out[at(u.slot)].lasts = true;
  for (const auto& u : program.inputs) out[at(u.slot)].lasts = true;
  for (std::size_t s = 0; s < program.slots.size(); ++s) out[s].lasts = out[s].lasts || program.slots[s].external;
  return out;
}

std::vector<int> makers_of(const Program& program) {
  std::vector<int> out(program.slots.size(), -1);
  for (std::size_t i = 0; i < program.code.size(); ++i)
    for (const auto& u : program.code[i].outputs) out[at(u.slot)] = static_cast<int>(i);
  return out;
}

bool written_between(const Program& program, std::size_t begin, std::size_t end, const Program::Instruction& reader) {
  for (std::size_t i = begin + 1; i < end; ++i)
    for (int w : program.code[i].op->writes)
      for (const auto& u : reader.inputs)
        if (u.slot == program.code[i].inputs[at(w)].slot) return true;
  return false;
}

bool recomputed_between(const Program& program, std::size_t begin, std::size_t end) {
  const auto& after = program.code[begin].after;
  for (std::size_t i = begin; i < end; ++i)
    if (program.code[i].after != after) return true;
  return false;
}

}  // namespace gemel
