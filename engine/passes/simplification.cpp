// Algebraic simplification: removes operators whose result equals one of their inputs.
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/passes/passes.h"
#include "engine/passes/slot_usage.h"

namespace gemel {
namespace {

/// What the rules may ask about a program.
class Facts {
 public:
  explicit Facts(const Program& program) : maker_(program.slots.size(), nullptr), written_(written_slots(program)) {
    for (const auto& step : program.code)
      for (const auto& u : step.outputs) maker_[at(u.slot)] = &step;
  }
  const Program::Instruction* maker(const Program::Use& u) const { return maker_[at(u.slot)]; }
  bool written(int slot) const { return written_[at(slot)]; }
  /// Every element has this value, of u and of what it is broadcast from.
  bool is_constant(const Program::Use& u, double value) const {
    const auto* step = maker(u);
    if (!step || written(u.slot)) return false;
    if (step->op->name == "broadcast_to") return is_constant(step->inputs[0], value);
    return step->op->name == "full" && step->attributes.real("value") == value;
  }

 private:
  std::vector<const Program::Instruction*> maker_;
  std::vector<bool> written_;
};

/// The index of the input that the result equals, or nothing.
using Rule = std::optional<int> (*)(const Facts&, const Program::Instruction&);

std::optional<int> neutral(const Facts& facts, const Program::Instruction& step, double value, bool either_side) {
  if (facts.is_constant(step.inputs[1], value)) return 0;
  if (either_side && facts.is_constant(step.inputs[0], value)) return 1;
  return std::nullopt;
}

/// These give back their input where its spec is the result's, which equal_to compares.
std::optional<int> the_same_by_spec(const Facts&, const Program::Instruction&) { return 0; }

struct NamedRule {
  std::string_view op;
  Rule rule;
};
constexpr std::array kRules{
    NamedRule{"multiply", [](const Facts& f, const Program::Instruction& s) { return neutral(f, s, 1, true); }},
    NamedRule{"divide", [](const Facts& f, const Program::Instruction& s) { return neutral(f, s, 1, false); }},
    NamedRule{"add", [](const Facts& f, const Program::Instruction& s) { return neutral(f, s, 0, true); }},
    NamedRule{"subtract", [](const Facts& f, const Program::Instruction& s) { return neutral(f, s, 0, false); }},
    NamedRule{"cast", the_same_by_spec},
    NamedRule{"broadcast_to", the_same_by_spec},
    NamedRule{"pad", the_same_by_spec},
    NamedRule{"slice", the_same_by_spec},
};

/// Two uses of one involution: -(-x).
std::optional<Program::Use> undone(const Facts& facts, const Program::Instruction& step) {
  if (step.op->name != "negate") return std::nullopt;
  const auto* before = facts.maker(step.inputs[0]);
  if (!before || before->op != step.op || facts.written(step.inputs[0].slot)) return std::nullopt;
  return before->inputs[0];
}

/// What the application's result is equal to, where that lies unchanged in memory.
std::optional<Program::Use> equal_to(const Facts& facts, const Program::Instruction& step) {
  if (step.outputs.size() != 1 || facts.written(step.outputs[0].slot)) return std::nullopt;
  std::optional<Program::Use> found = undone(facts, step);
  for (const NamedRule& r : kRules)
    if (!found && r.op == step.op->name)
      if (const auto input = r.rule(facts, step)) found = step.inputs[at(*input)];
  if (!found || found->spec != step.outputs[0].spec || facts.written(found->slot)) return std::nullopt;
  return found;
}

}  // namespace

Program simplify(Session&, Program program) {
  const Facts facts(program);
  std::vector<std::vector<Program::Use>> places;
  for (const auto& step : program.code) {
    const auto to = equal_to(facts, step);
    places.push_back(to ? std::vector{*to} : std::vector<Program::Use>());
  }
  return without(std::move(program), places);
}

}  // namespace gemel
