#include "engine/graph/run/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel {
namespace {

/// First and last instruction that touch a slot; slots that share memory share one life.
struct Life {
  std::int64_t first = -1, last = -1, bytes = 0;
  int shares = -1;  // the slot whose memory it takes over, the first of all that have it
};

std::vector<bool> outside_arena(const Program& program) {
  std::vector<bool> out(program.slots.size(), false);
  for (std::size_t s = 0; s < program.slots.size(); ++s) out[s] = program.slots[s].external != nullptr;
  for (const auto& u : program.inputs) out[at(u.slot)] = true;
  for (const auto& u : program.outputs) out[at(u.slot)] = true;
  return out;
}

std::vector<Life> lives_of(const Program& program, std::int64_t alignment) {
  std::vector<Life> lives(program.slots.size());
  for (std::size_t s = 0; s < lives.size(); ++s) lives[s].bytes = round_up(std::max<std::int64_t>(program.slots[s].bytes, 1), alignment);
  for (std::size_t i = 0; i < program.code.size(); ++i)
    for (const auto* uses : {&program.code[i].inputs, &program.code[i].outputs})
      for (const auto& u : *uses) {
        Life& life = lives[at(u.slot)];
        if (life.first < 0) life.first = static_cast<std::int64_t>(i);
        life.last = static_cast<std::int64_t>(i);
      }
  return lives;
}

int root(const std::vector<Life>& lives, int slot) { return lives[at(slot)].shares < 0 ? slot : lives[at(slot)].shares; }

void share(const Program& program, const std::vector<bool>& outside, std::vector<Life>& lives) {
  for (std::size_t i = 0; i < program.code.size(); ++i) {
    const auto& step = program.code[i];
    std::set<int> given;
    for (const Reuse& r : step.op->may_reuse) {
      if (at(r.output) >= step.outputs.size() || at(r.input) >= step.inputs.size()) continue;
      const int in = step.inputs[at(r.input)].slot, out = step.outputs[at(r.output)].slot;
      const auto times = std::count_if(step.inputs.begin(), step.inputs.end(), [&](const auto& u) { return u.slot == in; });
      const bool fits = program.slots[at(in)].bytes == program.slots[at(out)].bytes && step.inputs[at(r.input)].spec.bytes() == program.slots[at(in)].bytes;
      if (outside[at(in)] || outside[at(out)] || lives[at(out)].shares >= 0 || given.count(in) || times != 1 || !fits ||
          lives[at(in)].last != static_cast<std::int64_t>(i))
        continue;
      lives[at(out)].shares = root(lives, in);
      given.insert(in);
    }
  }
  for (std::size_t s = 0; s < lives.size(); ++s)
    if (const int r = root(lives, static_cast<int>(s)); r != static_cast<int>(s)) lives[at(r)].last = std::max(lives[at(r)].last, lives[s].last);
}

std::int64_t largest_sum(const std::vector<Life>& lives, const std::vector<int>& placed, std::size_t instructions) {
  std::vector<std::int64_t> change(instructions + 1, 0);
  for (int s : placed) {
    change[at(lives[at(s)].first)] += lives[at(s)].bytes;
    change[at(lives[at(s)].last + 1)] -= lives[at(s)].bytes;
  }
  std::int64_t live = 0, most = 0;
  for (std::int64_t c : change) most = std::max(most, live += c);
  return most;
}

/// Slots by the stretches of instructions that they live through: of a long program most lives are short and far from each other.
class Alive {
 public:
  Alive(const std::vector<Life>& lives, std::size_t instructions) : lives_(lives), in_stretch_(instructions / kStretch + 1) {}
  void add(int slot) {
    for (std::size_t k = stretch(lives_[at(slot)].first); k <= stretch(lives_[at(slot)].last); ++k) in_stretch_[k].push_back(slot);
  }
  /// Calls `f` once for each that lives at the same time.
  template <class F>
  void each_beside(const Life& life, F f) const {
    for (std::size_t k = stretch(life.first); k <= stretch(life.last); ++k)
      for (int slot : in_stretch_[k]) {
        const Life& other = lives_[at(slot)];
        const bool is_first_meeting = k == std::max(stretch(life.first), stretch(other.first));
        if (is_first_meeting && other.first <= life.last && life.first <= other.last) f(slot);
      }
  }

 private:
  static constexpr std::int64_t kStretch = 64;
  static std::size_t stretch(std::int64_t instruction) { return at(instruction / kStretch); }
  const std::vector<Life>& lives_;
  std::vector<std::vector<int>> in_stretch_;
};

/// Lowest offset where `bytes` fit between the occupied ranges without straddling a slab's end.
std::int64_t lowest_gap(std::vector<std::pair<std::int64_t, std::int64_t>> occupied, std::int64_t bytes, std::int64_t slab) {
  std::sort(occupied.begin(), occupied.end());
  std::int64_t from = 0;
  const auto within_slab = [&](std::int64_t o) { return o / slab == (o + bytes - 1) / slab ? o : round_up(o, slab); };
  for (const auto& [begin, end] : occupied) {
    from = within_slab(from);
    if (from + bytes <= begin) return from;
    from = std::max(from, end);
  }
  return within_slab(from);
}

/// What an instruction makes in a slot: "layer1.0.conv1: conv2d: float32 [64, 56, 56, 64]".
std::string made_at(const Program& program, int slot, std::int64_t instruction) {
  const Program::Instruction& step = program.code[at(instruction)];
  const auto it = std::ranges::find(step.outputs, slot, &Program::Use::slot);
  return fmt::format("{}{}{}: {}", step.scope, step.scope.empty() ? "" : ": ", step.op->name, it == step.outputs.end() ? "a tensor" : to_string(it->spec));
}

/// Slots that an arena has, less those that take over another's memory.
std::vector<int> placed_by_themselves(const std::vector<Life>& lives, const std::vector<bool>& outside) {
  std::vector<int> out;
  for (std::size_t s = 0; s < lives.size(); ++s)
    if (!outside[s] && lives[s].first >= 0 && lives[s].shares < 0) out.push_back(static_cast<int>(s));
  return out;
}

}  // namespace

MemoryPlan plan_memory(const Program& program, std::int64_t alignment, std::int64_t max_slab_bytes) {
  const auto outside = outside_arena(program);
  auto lives = lives_of(program, alignment);
  share(program, outside, lives);
  std::vector<int> order = placed_by_themselves(lives, outside);
  MemoryPlan plan;
  plan.places.resize(program.slots.size());
  plan.lower_bound = largest_sum(lives, order, program.code.size());
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return lives[at(a)].bytes > lives[at(b)].bytes; });
  const std::int64_t slab = max_slab_bytes / alignment * alignment;
  std::vector<std::int64_t> offset(lives.size(), 0);
  Alive placed(lives, program.code.size());
  std::int64_t top = 0;
  for (int s : order) {
    const Life& life = lives[at(s)];
    if (life.bytes > slab)
      throw MemoryError(fmt::format("{}: {} bytes are more than the device's largest buffer, of {}; accepted: a smaller batch, input or model",
                                    made_at(program, s, life.first), life.bytes, max_slab_bytes));
    std::vector<std::pair<std::int64_t, std::int64_t>> occupied;
    placed.each_beside(life, [&](int p) { occupied.emplace_back(offset[at(p)], offset[at(p)] + lives[at(p)].bytes); });
    offset[at(s)] = lowest_gap(std::move(occupied), life.bytes, slab);
    top = std::max(top, offset[at(s)] + life.bytes);
    placed.add(s);
  }
  for (std::int64_t at_byte = 0; at_byte < top; at_byte += slab) plan.slab_bytes.push_back(std::min(slab, top - at_byte));
  plan.arena_bytes = top;
  for (std::size_t s = 0; s < lives.size(); ++s) {
    if (outside[s] || lives[s].first < 0) continue;
    const std::int64_t o = offset[at(root(lives, static_cast<int>(s)))];
    plan.places[s] = {static_cast<int>(o / slab), o % slab};
  }
  return plan;
}

MemoryPlan plan_own_memory(const Program& program) {
  const auto outside = outside_arena(program);
  auto lives = lives_of(program, 1);
  MemoryPlan plan;
  plan.places.resize(program.slots.size());
  for (const int s : placed_by_themselves(lives, outside)) plan.arena_bytes += lives[at(s)].bytes;
  share(program, outside, lives);
  plan.lower_bound = largest_sum(lives, placed_by_themselves(lives, outside), program.code.size());
  return plan;
}

}  // namespace gemel
