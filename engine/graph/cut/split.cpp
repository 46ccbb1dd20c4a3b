#include "engine/graph/cut/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/gradients/recompute.h"
#include "engine/graph/cut/prune.h"

namespace gemel {
namespace {

/// [instruction] whether a gradient comes to it from the outputs.
std::vector<bool> differentiated(const Program& program) {
  std::vector<bool> out(program.code.size(), false);
  std::set<int> wanted;
  for (const auto& u : program.outputs)
    if (u.tracked) wanted.insert(u.slot);
  for (std::size_t i = program.code.size(); i-- > 0;) {
    const auto& step = program.code[i];
    out[i] = std::ranges::any_of(step.outputs, [&](const auto& u) { return wanted.contains(u.slot); });
    if (!out[i]) continue;
    for (const auto& u : step.inputs)
      if (u.tracked) wanted.insert(u.slot);
  }
  return out;
}

/// Slots that the instructions before `cut` make or change. Memory from outside is the same on both sides.
std::set<int> made_before(const Program& program, std::size_t cut) {
  std::set<int> out;
  for (std::size_t i = 0; i < cut; ++i) {
    const auto& step = program.code[i];
    for (const auto& u : step.outputs) out.insert(u.slot);
    for (int w : step.op->writes) out.insert(step.inputs[at(w)].slot);
  }
  std::erase_if(out, [&](int slot) { return program.slots[at(slot)].external != nullptr; });
  return out;
}

std::set<int> changed_in_place(const Program& program) {
  std::set<int> out;
  for (const auto& step : program.code)
    for (int w : step.op->writes) out.insert(step.inputs[at(w)].slot);
  return out;
}

void check_cuts(const Program& program, const std::vector<std::size_t>& cuts) {
  for (std::size_t k = 0; k < cuts.size(); ++k) {
    const std::size_t first = k == 0 ? 1 : cuts[k - 1] + 1;
    if (cuts[k] < first || cuts[k] >= program.code.size())
      throw UsageError(fmt::format("pipeline: cut {} is before instruction {} of {}; accepted: cuts in ascending order that leave an instruction to each piece",
                                   k, cuts[k], program.code.size()));
  }
}

/// The pieces before a change would not see it, and their gradients would be of other values.
void check_unchanged(const Program& program, std::size_t cut, const std::vector<Program::Use>& arrives) {
  for (std::size_t i = cut; i < program.code.size(); ++i)
    for (int w : program.code[i].op->writes) {
      const auto& written = program.code[i].inputs[at(w)];
      if (std::ranges::any_of(arrives, [&](const auto& u) { return u.slot == written.slot; }))
        throw UsageError(
            fmt::format("pipeline: the value {} crosses the cut before instruction {} and is changed in place behind it by {}; accepted: cuts on one side "
                        "of where it is made and changed",
                        to_string(written.spec), cut, program.code[i].op->name));
    }
}

std::function<bool()> stays_frozen_or_not(const Value& leaf) {
  return [node = std::weak_ptr(leaf.node()), wants = leaf.wants_gradient()] {
    const auto held = node.lock();
    return held && held->frozen != wants;
  };
}

/// A whole storage, with the history of the parameter that lies in it.
Value bound_value(const Program::Slot& slot, const std::map<const Storage*, Value>& leaves) {
  const auto leaf = leaves.find(slot.external.get());
  if (leaf != leaves.end()) return leaf->second;
  const bool is_whole = slot.spec.elements() == slot.external->elements;
  return {is_whole ? slot.spec : Spec{{slot.external->elements}, slot.spec.dtype}, slot.external};
}

/// Memory that is bound for good becomes further inputs.
void pass_bound(Program& program, const std::map<const Storage*, Value>& leaves) {
  std::vector<std::int64_t> begins(program.slots.size(), 0);
  for (std::size_t s = 0; s < program.slots.size(); ++s) {
    auto& slot = program.slots[s];
    if (!slot.external) continue;
    const Value value = bound_value(slot, leaves);
    begins[s] = value.offset();
    program.inputs.push_back({static_cast<int>(s), value.spec()});
    program.captured.push_back(value);
    slot.external = nullptr;
  }
  const auto shift = [&](std::vector<Program::Use>& uses) {
    for (auto& u : uses) u.offset -= begins[at(u.slot)];
  };
  for (auto& step : program.code) shift(step.inputs);
  shift(program.outputs);
}

Piece piece_of(const Program& whole, std::size_t first, std::size_t last) {
  Piece piece;
  const bool is_last = last == whole.code.size();
  if (first > 0) piece.arrives = crossing(whole, first);
  if (!is_last) piece.leaves = crossing(whole, last);
  Section part = section(whole, first, last, piece.arrives, is_last ? whole.outputs : piece.leaves);
  piece.program = std::move(part.program);
  piece.own = std::move(part.own);
  return piece;
}

}  // namespace

Values Piece::parameters() const {
  Values out;
  for (const Value& v : program.captured)
    if (v.node()) out.push_back(v);
  return out;
}

Values Piece::state() const {
  const std::set<int> written = changed_in_place(program);
  Values out;
  const std::size_t first = program.inputs.size() - program.captured.size();
  for (std::size_t i = 0; i < program.captured.size(); ++i)
    if (written.contains(program.inputs[first + i].slot)) out.push_back(program.captured[i]);
  return out;
}

bool Piece::changes(std::size_t input) const {
  const auto place = std::ranges::find(own, input);
  return place != own.end() && changed_in_place(program).contains(program.inputs[at(place - own.begin())].slot);
}

std::vector<Program::Use> crossing(const Program& program, std::size_t cut) {
  const std::set<int> made = made_before(program, cut);
  const std::vector<bool> is_differentiated = differentiated(program);
  std::map<int, Program::Use> found;  // slots are numbered as they are made
  const auto see = [&](const Program::Use& u, bool wants) {
    if (!made.contains(u.slot)) return;
    const auto it = found.try_emplace(u.slot, Program::Use{u.slot, program.slots[at(u.slot)].spec, 0, u.version}).first;
    it->second.tracked = it->second.tracked || (wants && u.tracked);
  };
  for (std::size_t i = cut; i < program.code.size(); ++i)
    for (const auto& u : program.code[i].inputs) see(u, is_differentiated[i]);
  for (const auto& u : program.outputs) see(u, true);
  std::vector<Program::Use> out;
  for (const auto& [slot, use] : found) out.push_back(use);
  return out;
}

Section section(const Program& whole, std::size_t first, std::size_t last, const std::vector<Program::Use>& arrives, const std::vector<Program::Use>& values) {
  check_unchanged(whole, first, arrives);
  Wanted wanted{.values = values, .instructions = {}, .given = arrives};
  for (std::size_t i = 0; i < whole.code.size(); ++i) (i >= first && i < last ? wanted.instructions : wanted.without).push_back(static_cast<int>(i));
  Pruned part = prune(whole, std::move(wanted));
  Section out{std::move(part.program), {}};
  for (std::size_t i : part.inputs)
    if (i < whole.inputs.size()) out.own.push_back(i);
  return out;
}

std::vector<Piece> split(const Program& program, const std::vector<std::size_t>& cuts, const Values& parameters) {
  check_cuts(program, cuts);
  std::map<const Storage*, Value> leaves;
  std::vector<std::function<bool()>> assumptions = program.assumptions;
  for (const Value& p : parameters) {
    leaves.emplace(p.storage().get(), p);
    assumptions.push_back(stays_frozen_or_not(p));
  }
  std::vector<Piece> pieces;
  for (std::size_t k = 0; k <= cuts.size(); ++k) {
    pieces.push_back(piece_of(program, k == 0 ? 0 : cuts[k - 1], k < cuts.size() ? cuts[k] : program.code.size()));
    pass_bound(pieces.back().program, leaves);
    pieces.back().program.assumptions = assumptions;
  }
  return pieces;
}

Piece with_bound(Piece piece, const std::map<std::size_t, Value>& values) {
  Program& program = piece.program;
  std::vector<Program::Use> inputs, bound;
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const bool is_own = i < piece.own.size();
    const auto given = is_own ? values.find(piece.own[i]) : values.end();
    (given == values.end() ? inputs : bound).push_back(program.inputs[i]);
    if (is_own && given == values.end()) own.push_back(piece.own[i]);
    if (given == values.end()) continue;
    const Value& value = given->second;
    if (value.spec() != program.inputs[i].spec)
      throw ShapeError(
          fmt::format("pipeline: {} is bound as input {}; accepted: {}", to_string(value.spec()), given->first, to_string(program.inputs[i].spec)));
    program.captured.push_back(value);
    if (value.node()) program.assumptions.push_back(stays_frozen_or_not(value));
  }
  inputs.insert(inputs.end(), bound.begin(), bound.end());
  program.inputs = std::move(inputs);
  piece.own = std::move(own);
  return piece;
}

Values run(Session& session, const Piece& piece, Values inputs, Kept kept) {
  const Program& program = piece.program;
  if (const std::size_t taken = piece.own.size() + piece.arrives.size(); inputs.size() != taken)
    throw UsageError(
        fmt::format("pipeline: a piece is given {} values; accepted: {}, of its own {} and those that arrive", inputs.size(), taken, piece.own.size()));
  inputs.insert(inputs.end(), program.captured.begin(), program.captured.end());
  if (kept == Kept::all || inputs.empty()) return replay(session, program, std::move(inputs));
  const std::set<int> changed = changed_in_place(program);
  const auto is_state = [changed](const Program::Use& u) { return changed.contains(u.slot); };
  Values read, state;
  for (std::size_t i = 0; i < inputs.size(); ++i) (is_state(program.inputs[i]) ? state : read).push_back(std::move(inputs[i]));
  const auto again = [&session, &program, is_state](const Values& from, const Values& state_then) {
    Values all;
    auto next = from.begin(), next_state = state_then.begin();
    for (const auto& u : program.inputs) all.push_back(is_state(u) ? *next_state++ : *next++);
    return replay(session, program, std::move(all));
  };
  return recomputed(again, read, state);
}

}  // namespace gemel
