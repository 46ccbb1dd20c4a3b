#include "engine/passes/decomposition.h"

#include <utility>

#include "engine/base/numbers.h"
#include "engine/passes/passes.h"

namespace gemel {
namespace {

using Use = Program::Use;

/// The uses of a captured body as the program around it has them.
class Places {
 public:
  Places(Program& program, const Program& body, const Program::Instruction& step) : first_(body.slots.size()), slots_(body.slots.size(), -1) {
    for (std::size_t i = 0; i < step.inputs.size(); ++i) put(body.inputs[i].slot, step.inputs[i]);
    for (std::size_t o = 0; o < step.outputs.size(); ++o) put(body.outputs[o].slot, step.outputs[o]);
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      if (slots_[s] >= 0) continue;
      slots_[s] = static_cast<int>(program.slots.size());
      program.slots.push_back(body.slots[s]);
    }
  }
  void move(std::vector<Use>& uses) const {
    for (Use& u : uses) {
      const Use& first = first_[at(u.slot)];
      u.slot = slots_[at(u.slot)], u.offset += first.offset, u.version += first.version, u.tracked = u.tracked || first.tracked;
    }
  }

 private:
  void put(int slot, const Use& use) {
    slots_[at(slot)] = use.slot;
    first_[at(slot)] = use;
  }
  std::vector<Use> first_;  // [slot of the body] where it begins in the program's slot, and at which version
  std::vector<int> slots_;  // [slot of the body]
};

}  // namespace

std::vector<Program::Instruction> written_out(Session& session, Program& program, const Program::Instruction& step,
                                              const std::function<Values(const Values& inputs)>& function) {
  Specs specs;
  for (const Use& u : step.inputs) specs.push_back(u.spec);
  Program body = capture(session, specs, function);
  const Places places(program, body, step);
  for (Program::Instruction& inner : body.code) {
    places.move(inner.inputs);
    places.move(inner.outputs);
    inner.scope = step.scope;
    inner.after = step.after;
  }
  return std::move(body.code);
}

Program decomposed(Session& session, Program program, const std::function<bool(const OpDef&)>& which) {
  std::vector<Program::Instruction> code;
  for (Program::Instruction& step : std::exchange(program.code, {})) {
    if (!which(*step.op)) {
      code.push_back(std::move(step));
      continue;
    }
    const auto compose = [&](const Values& inputs) { return step.op->composed(inputs, step.attributes); };
    for (Program::Instruction& inner : written_out(session, program, step, compose)) code.push_back(std::move(inner));
  }
  program.code = std::move(code);
  return program;
}

Program decompose(Session& session, Program program) {
  return decomposed(session, std::move(program), [](const OpDef& op) { return op.decomposes; });
}

}  // namespace gemel
