#include "engine/passes/slot_usage.h"

#include <optional>
#include <set>
#include <utility>

#include "engine/base/numbers.h"

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

std::vector<bool> written_slots(const Program& program) {
  std::vector<bool> out(program.slots.size(), false);
  std::set<const Storage*> wholes, memory;  // from outside: written as such, and written in a range or as such
  for (const auto& step : program.code)
    for (int w : written_by(program, step)) {
      out[at(w)] = true;
      const auto& storage = program.slots[at(w)].external;
      if (!storage) continue;
      wholes.insert(storage.get());
      memory.insert({storage.get(), storage->whole.get()});
    }
  for (std::size_t s = 0; s < out.size(); ++s)
    if (const auto& storage = program.slots[s].external) out[s] = memory.contains(storage.get()) || (storage->whole && wholes.contains(storage->whole.get()));
  return out;
}

Program without(Program program, const std::vector<std::vector<Program::Use>>& places) {
  std::vector<std::optional<Program::Use>> place_of(program.slots.size());
  const auto redirect = [&](Program::Use& u) {
    while (const auto& to = place_of[at(u.slot)]) {
      u.slot = to->slot;
      u.offset += to->offset;
      u.version = to->version;
    }
  };
  std::vector<Program::Instruction> kept;
  for (std::size_t i = 0; i < program.code.size(); ++i) {
    auto& step = program.code[i];
    for (std::size_t o = 0; o < places[i].size(); ++o) place_of[at(step.outputs[o].slot)] = places[i][o];
    if (!places[i].empty()) continue;
    for (auto& u : step.inputs) redirect(u);
    kept.push_back(std::move(step));
  }
  for (auto& u : program.outputs) redirect(u);
  program.code = std::move(kept);
  return program;
}

bool written_between(const Program& program, std::size_t begin, std::size_t end, const Program::Instruction& reader) {
  for (std::size_t i = begin + 1; i < end; ++i)
    for (int w : written_by(program, program.code[i]))
      for (const auto& u : reader.inputs)
        if (overlap(program, u.slot, w)) return true;
  return false;
}

bool recomputed_between(const Program& program, std::size_t begin, std::size_t end) {
  const auto& after = program.code[begin].after;
  for (std::size_t i = begin; i < end; ++i)
    if (program.code[i].after != after) return true;
  return false;
}

}  // namespace gemel
