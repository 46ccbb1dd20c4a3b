// capture, verify and the listing of programs.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/graph/capture/graph_trace.h"
#include "engine/graph/capture/program.h"

namespace gemel {
namespace {

[[noreturn]] void broken(const std::string& after, std::size_t i, const Program::Instruction& step, const std::string& what) {
  throw InternalError(fmt::format("graph: after {}, instruction {} ({}): {}", after, i, step.op->name, what));
}

bool fits(const Program& program, const Program::Use& u) {
  const auto& slot = program.slots[at(u.slot)];
  if (slot.external) return u.offset + u.spec.elements() <= slot.external->elements;
  return u.offset * static_cast<std::int64_t>(size_of(u.spec.dtype)) + u.spec.bytes() <= slot.bytes;
}

void verify_specs(const Program::Instruction& step, std::size_t i, const std::string& after) {
  Specs in;
  for (const auto& u : step.inputs) in.push_back(u.spec);
  const Specs out = step.op->infer(in, step.attributes);
  if (out.size() != step.outputs.size()) broken(after, i, step, "the number of outputs differs from what is inferred");
  for (std::size_t o = 0; o < out.size(); ++o)
    if (out[o] != step.outputs[o].spec)
      broken(after, i, step, fmt::format("output {} is {}, inferred {}", o, to_string(step.outputs[o].spec), to_string(out[o])));
}

}  // namespace

bool still_holds(const Program& program) {
  return std::ranges::all_of(program.assumptions, [](const auto& assumption) { return assumption(); });
}

std::vector<OwnedProblem> problems_of(const Program& program) {
  const auto specs_of = [](const std::vector<Program::Use>& uses) {
    Specs out;
    for (const auto& u : uses) out.push_back(u.spec);
    return out;
  };
  std::vector<OwnedProblem> out;
  for (const Program::Instruction& i : program.code) out.push_back({*i.op, i.attributes, specs_of(i.inputs), specs_of(i.outputs)});
  return out;
}

std::vector<int> written_by(const Program& program, const Program::Instruction& step) {
  std::vector<int> out;
  for (int w : step.op->writes) out.push_back(step.inputs[at(w)].slot);
  for (const auto& u : step.outputs)
    if (program.slots[at(u.slot)].external) out.push_back(u.slot);
  return out;
}

bool overlap(const Program& program, int a, int b) {
  if (a == b) return true;
  const auto &one = program.slots[at(a)].external, &other = program.slots[at(b)].external;
  return one && other && (one == other || one->whole == other || other->whole == one);
}

Program capture(Session& session, const Specs& inputs, const std::function<Values(const Values&)>& body, Outside outside) {
  GraphTrace graph(session, outside);
  const GraphTrace::InForce in_force(graph);
  Values in;
  for (const Spec& s : inputs) in.push_back(graph.input(s));
  return graph.finish(body(in));
}

void verify(const Program& program, const std::string& after) {
  std::vector<bool> defined(program.slots.size(), false);
  for (std::size_t s = 0; s < program.slots.size(); ++s) defined[s] = program.slots[s].external != nullptr;
  for (const auto& u : program.inputs) defined[at(u.slot)] = true;
  for (std::size_t i = 0; i < program.code.size(); ++i) {
    const auto& step = program.code[i];
    for (const auto& u : step.inputs) {
      if (!defined[at(u.slot)]) broken(after, i, step, fmt::format("slot {} is used before it is made", u.slot));
      if (!fits(program, u))
        broken(after, i, step, fmt::format("slot {} of {} bytes is used as {}", u.slot, program.slots[at(u.slot)].bytes, to_string(u.spec)));
    }
    verify_specs(step, i, after);
    for (const auto& u : step.outputs) {
      if (u.offset != 0 || program.slots[at(u.slot)].bytes != u.spec.bytes())
        broken(after, i, step, fmt::format("slot {} of {} bytes is made as {}", u.slot, program.slots[at(u.slot)].bytes, to_string(u.spec)));
      if (defined[at(u.slot)] && !program.slots[at(u.slot)].external) broken(after, i, step, fmt::format("slot {} is made twice", u.slot));
      defined[at(u.slot)] = true;
    }
  }
  for (const auto& u : program.outputs) {
    if (!defined[at(u.slot)]) throw InternalError(fmt::format("graph: after {}, output slot {} is never made", after, u.slot));
    if (!fits(program, u)) throw InternalError(fmt::format("graph: after {}, output slot {} is used as {}", after, u.slot, to_string(u.spec)));
  }
}

std::string to_string(const Program& program) {
  const auto name = [&](const Program::Use& u) { return fmt::format("{}{}:{}", program.slots[at(u.slot)].external ? "@" : "%", u.slot, to_string(u.spec)); };
  const auto names = [&](const std::vector<Program::Use>& uses) {
    std::string out;
    for (const auto& u : uses) out += (out.empty() ? "" : ", ") + name(u);
    return out;
  };
  std::string text = fmt::format("inputs {}\n", names(program.inputs));
  for (const auto& step : program.code) {
    const std::string attributes = to_string(step.attributes);
    text += fmt::format("{} = {}({}){}{}\n", names(step.outputs), step.op->name, names(step.inputs), attributes.empty() ? "" : " {" + attributes + "}",
                        step.scope.empty() ? "" : "  # " + step.scope);
  }
  return text + fmt::format("outputs {}\n", names(program.outputs));
}

}  // namespace gemel
