// Constant folding: computes once, with the kernels of the device, so that no bit changes, what depends on constants only. Bound tensors are not
// constant, because they outlive the program and may be written outside of it; nor are draws. Large constants are not folded: keeping their
// memory costs more than filling it again.
#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/core/trace.h"
#include "engine/passes/passes.h"
#include "engine/passes/slot_usage.h"

namespace gemel {
namespace {

constexpr std::int64_t kLargestFolded = 1 << 16;  // bytes

bool foldable(const Program::Instruction& step) {
  if (!step.op->writes.empty() || step.op->draws || step.op->execute || step.op->views) return false;
  for (const auto& u : step.outputs)
    if (u.spec.bytes() > kLargestFolded) return false;
  return true;
}

/// Slots written by this program, or fed to it: what may differ from run to run.
std::vector<bool> varying_slots(const Program& program) {
  std::vector<bool> varies = written_slots(program);
  for (const auto& u : program.inputs) varies[at(u.slot)] = true;
  // Parameters and statistics outlive the plan and may be changed outside it.
  for (std::size_t s = 0; s < program.slots.size(); ++s) varies[s] = varies[s] || program.slots[s].external;
  return varies;
}

}  // namespace

Program fold_constants(Session& session, Program program) {
  std::vector<bool> varies = varying_slots(program);
  std::vector<Program::Instruction> kept;
  for (auto& step : program.code) {
    bool constant = foldable(step);
    for (const auto& u : step.inputs) constant = constant && !varies[at(u.slot)];
    for (const auto& u : step.outputs) constant = constant && !varies[at(u.slot)];  // written later
    if (!constant) {
      for (const auto& u : step.outputs) varies[at(u.slot)] = true;
      kept.push_back(std::move(step));
      continue;
    }
    Values in, out;
    for (const auto& u : step.inputs) in.emplace_back(u.spec, program.slots[at(u.slot)].external, u.offset);
    for (const auto& u : step.outputs) out.push_back(session.empty(u.spec, "folded " + step.op->name));
    session.interpreter().compute(*step.op, step.attributes, in, out);
    for (std::size_t o = 0; o < out.size(); ++o) program.slots[at(step.outputs[o].slot)].external = out[o].storage();
  }
  program.code = std::move(kept);
  return program;
}

}  // namespace gemel
