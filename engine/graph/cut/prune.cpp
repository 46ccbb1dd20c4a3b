#include "engine/graph/cut/prune.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel {
namespace {

/// Marks backwards: an instruction is seen after everything that could need it.
class Marks {
 public:
  Marks(const Program& program, const Wanted& wanted) : slots(program.slots.size(), false), instructions(program.code.size(), false), program_(program) {
    for (const auto& step : program.code)
      for (const auto& u : step.outputs) filled_.insert(program.slots[at(u.slot)].external.get());
    for (const auto& u : wanted.values) want(u);
    for (int i : wanted.instructions) instructions[at(i)] = true;
    for (std::size_t i = program.code.size(); i-- > 0;) {
      const auto& step = program.code[i];
      instructions[i] = (instructions[i] || makes_what_is_wanted(step)) && std::ranges::find(wanted.without, static_cast<int>(i)) == wanted.without.end();
      if (!instructions[i]) continue;
      for (const auto& u : step.outputs) fill(u);
      for (const auto& u : step.inputs) want(u);
      for (int before : step.after)
        if (at(before) < i) instructions[at(before)] = true;
    }
  }

  std::vector<bool> slots, instructions;

 private:
  void want(const Program::Use& u) {
    slots[at(u.slot)] = true;
    if (const auto& outside = program_.slots[at(u.slot)].external) {
      outside_.insert(outside.get());
      std::erase_if(filled_anew_, [&](const Storage* s) { return s == outside.get() || s == outside->whole.get() || s->whole == outside; });
    }
  }

  /// What filled the same memory before is not needed for it.
  void fill(const Program::Use& u) {
    const auto& outside = program_.slots[at(u.slot)].external;
    want(u);
    if (outside && u.spec.elements() == outside->elements) filled_anew_.insert(outside.get());
  }

  /// Memory from outside is made by who fills it as an output; whoever changes in place what is only read otherwise is to be asked
  /// for by name.
  bool makes_what_is_wanted(const Program::Instruction& step) const {
    const auto is_wanted = [&](const Program::Use& u) {
      const auto& outside = program_.slots[at(u.slot)].external;
      if (!outside) return bool(slots[at(u.slot)]);
      return (outside_.contains(outside.get()) || outside_.contains(outside->whole.get())) && !filled_anew_.contains(outside.get());
    };
    const auto is_made = [&](const Program::Use& u) {
      const auto& outside = program_.slots[at(u.slot)].external;
      return !outside || filled_.contains(outside.get());
    };
    return std::ranges::any_of(step.outputs, is_wanted) ||
           std::ranges::any_of(step.op->writes, [&](int w) { return is_made(step.inputs[at(w)]) && is_wanted(step.inputs[at(w)]); });
  }

  const Program& program_;
  std::set<const Storage*> outside_;      // memory from outside that is wanted
  std::set<const Storage*> filled_;       // memory from outside that is an output
  std::set<const Storage*> filled_anew_;  // of it what a later instruction fills before anything reads it
};

/// The program with further inputs, which are read in place of what is computed. Memory from outside is still written.
Program with_inputs(Program program, Wanted& wanted) {
  for (const auto& given : wanted.given) {
    if (given.offset != 0 || given.spec.bytes() != program.slots[at(given.slot)].bytes)
      throw UsageError(fmt::format("graph: the value {} is a part of another; accepted: whole values to be fed", to_string(given.spec)));
    const int slot = static_cast<int>(program.slots.size());
    const bool outside = program.slots[at(given.slot)].external != nullptr;
    program.slots.push_back({given.spec.bytes(), nullptr, program.slots[at(given.slot)].name, given.spec});
    program.inputs.push_back({slot, given.spec});
    const auto replace = [&](Program::Use& u) {
      if (u.slot == given.slot && (outside || u.version == given.version)) u.slot = slot, u.version = 0;
    };
    for (auto& step : program.code)
      for (std::size_t i = 0; i < step.inputs.size(); ++i) {
        const bool writes = std::ranges::find(step.op->writes, static_cast<int>(i)) != step.op->writes.end();
        if (!writes)
          replace(step.inputs[i]);
        else if (!outside && step.inputs[i].slot == given.slot)
          throw UsageError(fmt::format("graph: the value {} is changed in place by {}; accepted: values that stay as they are to be fed", to_string(given.spec),
                                       step.op->name));
      }
    for (auto& u : wanted.values) replace(u);
  }
  return program;
}

}  // namespace

Pruned prune(const Program& whole, Wanted wanted) {
  const Program given = wanted.given.empty() ? Program() : with_inputs(whole, wanted);
  const Program& program = wanted.given.empty() ? whole : given;
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
      renumber(step.inputs);
      renumber(step.outputs);
    }
  for (auto& step : out.program.code) {
    for (int& other : step.after) other = moved[at(other)];
    std::erase(step.after, -1);  // of those that are not run
  }
  out.program.outputs = wanted.values;
  renumber(out.program.inputs);
  renumber(out.program.outputs);
  return out;
}

}  // namespace gemel
