#include "engine/graph/run/executor.h"

#include <algorithm>
#include <optional>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"

namespace gemel {

/// One instruction's operands and its kernel, ready for the interpreter.
struct Executor::Bound {
  Values in, out;
  std::shared_ptr<Prepared> prepared;
  std::vector<std::shared_ptr<Storage>> filled;  // memory from outside that it writes as an output
};

Executor::Executor(Session& session, std::shared_ptr<const Program> program, std::unique_ptr<Arena> own)
    : session_(session), program_(std::move(program)), own_(std::move(own)), arena_(own_ ? *own_ : session.arena()) {
  const auto limits = session.interpreter().arena_limits();
  plan_ = limits ? plan_memory(*program_, limits->alignment, limits->largest_slab) : plan_own_memory(*program_);
  bind();
  settle();
}

Executor::~Executor() = default;

void Executor::bind() {
  const auto& slots = program_->slots;
  storages_.resize(slots.size());
  patches_.resize(slots.size());
  made_.resize(slots.size());
  std::vector<bool> given(slots.size(), false), is_input(slots.size(), false);
  for (const auto& u : program_->inputs) given[at(u.slot)] = is_input[at(u.slot)] = true;
  for (const auto& u : program_->outputs) given[at(u.slot)] = !slots[at(u.slot)].external;
  const std::vector<OwnedProblem> problems = problems_of(*program_);
  session_.interpreter().expect(problems);
  for (std::size_t i = 0; i < program_->code.size(); ++i) {
    const auto& step = program_->code[i];
    Bound bound;
    const auto take = [&](const std::vector<Program::Use>& uses, Values& to, bool output) {
      for (std::size_t k = 0; k < uses.size(); ++k) {
        const bool later = given[at(uses[k].slot)];
        to.push_back(later ? Value(uses[k].spec, nullptr, uses[k].offset) : place(uses[k]));
        if (later) patches_[at(uses[k].slot)].push_back({i, k, output});
        if (later && output && !is_input[at(uses[k].slot)]) results_.push_back(uses[k]);
      }
    };
    take(step.inputs, bound.in, false);
    take(step.outputs, bound.out, true);
    for (const Value& v : bound.out)
      if (v && std::ranges::any_of(step.outputs, [&](const auto& u) { return slots[at(u.slot)].external == v.storage(); })) bound.filled.push_back(v.storage());
    bound.prepared = session_.interpreter().prepare(*step.op, step.attributes, problems[i].inputs, problems[i].outputs);
    bound_.push_back(std::move(bound));
  }
}

Value Executor::place(const Program::Use& use) {
  auto& storage = storages_[at(use.slot)];
  if (!storage) storage = program_->slots[at(use.slot)].external;
  if (!storage) {
    storage = std::make_shared<Storage>(session_, use.spec.elements());
    if (plan_.places[at(use.slot)].slab < 0) storage->memory = session_.interpreter().allocate(use.spec, "graph");
  }
  return {use.spec, storage, use.offset};
}

/// Gives the slots of the arena their memory: another plan may have made it grow since the last run.
void Executor::settle() {
  if (plan_.slab_bytes.empty()) return;
  arena_.require(session_.interpreter(), plan_.slab_bytes);
  if (generation_ == arena_.generation()) return;
  generation_ = arena_.generation();
  for (std::size_t s = 0; s < storages_.size(); ++s) {
    const MemoryPlan::Place& p = plan_.places[s];
    if (!storages_[s] || p.slab < 0) continue;
    const std::shared_ptr<const Memory> lent(std::shared_ptr<const Memory>(), &arena_.slab(p.slab));  // the arena gives it back to grow
    storages_[s]->memory = session_.interpreter().part_of(lent, p.offset, program_->slots[s].bytes);
  }
}

void Executor::fill_in(int slot, const Value& value) {
  for (const Patch& p : patches_[at(slot)]) {
    const auto& step = program_->code[p.instruction];
    const auto& use = (p.output ? step.outputs : step.inputs)[p.index];
    (p.output ? bound_[p.instruction].out : bound_[p.instruction].in)[p.index] = Value(use.spec, value.storage(), value.offset() + use.offset);
  }
}

void Executor::allocate_outputs() {
  for (const auto& u : results_) {
    made_[at(u.slot)] = session_.empty(u.spec, "graph result");
    fill_in(u.slot, made_[at(u.slot)]);
  }
}

void Executor::execute() {
  Interpreter& interpreter = session_.interpreter();
  for (std::size_t i = 0; i < program_->code.size(); ++i) {
    const auto& step = program_->code[i];
    std::optional<PathScope> path;
    if (interpreter.observed()) path.emplace(session_, std::make_shared<const std::string>(step.scope));
    interpreter.compute(*step.op, step.attributes, bound_[i].in, bound_[i].out, bound_[i].prepared.get());
    for (int w : step.op->writes) count_write(*bound_[i].in[at(w)].storage());  // an eager tensor saved before is stale now
    for (const auto& storage : bound_[i].filled) count_write(*storage);
  }
}

void Executor::check(const Values& inputs) const {
  if (inputs.size() != program_->inputs.size())
    throw ShapeError("graph: " + std::to_string(inputs.size()) + " inputs given; accepted: " + std::to_string(program_->inputs.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) throw UsageError("graph: input " + std::to_string(i) + " is empty; accepted: " + to_string(program_->inputs[i].spec));
    if (&inputs[i].session() != &session_)
      throw UsageError("graph: input " + std::to_string(i) + " " + to_string(inputs[i].spec()) +
                       " belongs to another session; accepted: tensors of the graph's session");
    if (inputs[i].spec() != program_->inputs[i].spec)
      throw ShapeError("graph: input " + std::to_string(i) + " is " + to_string(inputs[i].spec()) + "; accepted: " + to_string(program_->inputs[i].spec));
    if (!inputs[i].storage()->memory)
      throw UsageError("graph: input " + std::to_string(i) + " is symbolic, of a graph that is being captured; accepted: a tensor with contents");
  }
}

/// Lets go of inputs and results: the arena alone stays between runs.
void Executor::release() {
  for (std::size_t s = 0; s < made_.size(); ++s)
    if (made_[s]) {
      made_[s] = Value();
      fill_in(static_cast<int>(s), Value());
    }
}

Values Executor::run(const Values& inputs) {
  session_.check_thread();
  check(inputs);
  struct Release {
    Executor& executor;
    ~Release() { executor.release(); }
  } const release{*this};
  settle();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    made_[at(program_->inputs[i].slot)] = inputs[i].detached();
    fill_in(program_->inputs[i].slot, inputs[i]);
  }
  allocate_outputs();
  execute();
  Values out;
  std::vector<bool> handed_out(program_->slots.size(), false);
  for (const auto& u : program_->inputs) handed_out[at(u.slot)] = true;
  for (const auto& u : program_->outputs) {
    const Value& made = made_[at(u.slot)];
    const Value from = made ? Value(u.spec, made.storage(), made.offset() + u.offset) : place(u);
    if (made && !handed_out[at(u.slot)]) {
      out.push_back(from);
    } else {  // an input, a parameter, or a result fetched twice: a copy, so that no result changes under another's feet
      out.push_back(session_.empty(u.spec, "result"));
      session_.interpreter().copy(from, out.back());
    }
    handed_out[at(u.slot)] = true;
  }
  return out;
}

void Executor::run(std::span<const Value> inputs, std::span<const Value> outputs) {
  const Values results = run(Values(inputs.begin(), inputs.end()));
  for (std::size_t o = 0; o < outputs.size(); ++o) session_.interpreter().copy(results[o], outputs[o]);
}

Executor& ExecutorCache::find(Session& session, const std::shared_ptr<const Program>& program) {
  if (const auto it = entries_.find(program.get()); it != entries_.end() && !it->second.program.expired()) return *it->second.executor;
  std::erase_if(entries_, [](const auto& entry) { return entry.second.program.expired(); });
  const std::shared_ptr<const Program> not_kept(std::shared_ptr<const Program>(), program.get());
  return *entries_.emplace(program.get(), Entry{program, std::make_unique<Executor>(session, not_kept, std::make_unique<Arena>())}).first->second.executor;
}

}  // namespace gemel
