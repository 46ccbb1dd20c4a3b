// Common subexpressions: merges equal operators with equal attributes on equal contents. (slot, version) identifies a content, so an expression over
// a parameter before its update differs from the same one after it. Never merges draws or writes. Does not merge an instruction that must run after
// another one with an instruction that need not: this would undo a recomputation.
#include <map>

#include "engine/base/numbers.h"
#include "engine/passes/passes.h"
#include "engine/passes/slot_usage.h"

namespace gemel {
namespace {

std::string key_of(const Program::Instruction& step) {
  std::string key = step.op->name + "{" + to_string(step.attributes) + "}";
  for (const auto& u : step.inputs)
    key += "|" + std::to_string(u.slot) + "." + std::to_string(u.version) + "+" + std::to_string(u.offset) + ":" + to_string(u.spec) + (u.tracked ? "t" : "");
  for (int before : step.after) key += ">" + std::to_string(before);
  return key;
}

bool mergeable(const Program::Instruction& step) { return step.op->writes.empty() && !step.op->draws && !step.op->execute && !step.owner; }

}  // namespace

Program merge_common_subexpressions(Session&, Program program) {
  std::vector<int> same(program.slots.size());
  for (std::size_t s = 0; s < same.size(); ++s) same[s] = static_cast<int>(s);
  // A value that is written later must stay apart from its twin.
  const std::vector<bool> written = written_slots(program);
  std::map<std::string, std::size_t> first;
  std::vector<Program::Instruction> kept;
  for (auto& step : program.code) {
    for (auto& u : step.inputs) u.slot = same[at(u.slot)];
    bool alone = !mergeable(step);
    for (const auto& u : step.outputs) alone = alone || written[at(u.slot)];
    if (!alone) {
      const auto [it, is_new] = first.try_emplace(key_of(step), kept.size());
      if (!is_new && kept[it->second].op == step.op) {
        for (std::size_t o = 0; o < step.outputs.size(); ++o) same[at(step.outputs[o].slot)] = kept[it->second].outputs[o].slot;
        continue;
      }
    }
    kept.push_back(std::move(step));
  }
  for (auto& u : program.outputs) u.slot = same[at(u.slot)];
  program.code = std::move(kept);
  return program;
}

}  // namespace gemel
