#include "engine/executor.h"

#include <cstdlib>
#include <cstring>
#include <optional>

#include "engine/base/error.h"
#include "engine/base/span.h"
#include "engine/device_storage.h"
#include "engine/session.h"
#include "opencl/device.h"

namespace gemel {

/// One instruction's operands, ready for the interpreter.
struct Executor::Bound {
  Values in, out;
};

namespace {

/// For a memory checker each slot has a buffer of its own.
bool exact_buffers() {
  const char* mode = std::getenv("GEMEL_ALLOCATOR");
  return mode && std::strcmp(mode, "exact") == 0;
}

}  // namespace

Executor::Executor(Session& session, std::shared_ptr<const Program> program) : session_(session), program_(std::move(program)) {
  if (session.has_device() && !exact_buffers()) {
    const auto& profile = session.device().profile();
    plan_ = plan_memory(*program_, profile.base_alignment_bytes, profile.max_allocation_bytes);
    for (std::int64_t bytes : plan_.slab_bytes)
      slabs_.push_back(std::make_shared<DeviceMemory>(session.device().memory().allocate(bytes, "graph arena")));
  }
  bind();
}

Executor::~Executor() = default;

void Executor::bind() {
  const auto& slots = program_->slots;
  storages_.resize(slots.size());
  patches_.resize(slots.size());
  made_.resize(slots.size());
  std::vector<bool> given(slots.size(), false);
  for (const auto& u : program_->inputs) given[at(u.slot)] = true;
  for (const auto& u : program_->outputs) given[at(u.slot)] = !slots[at(u.slot)].external;
  for (std::size_t i = 0; i < program_->code.size(); ++i) {
    const auto& step = program_->code[i];
    Bound bound;
    const auto take = [&](const std::vector<Program::Use>& uses, Values& to, bool output) {
      for (std::size_t k = 0; k < uses.size(); ++k) {
        to.push_back(given[at(uses[k].slot)] ? Value(uses[k].spec, nullptr, uses[k].offset) : place(uses[k]));
        if (given[at(uses[k].slot)]) patches_[at(uses[k].slot)].push_back({i, k, output});
      }
    };
    take(step.inputs, bound.in, false);
    take(step.outputs, bound.out, true);
    bound_.push_back(std::move(bound));
  }
}

Value Executor::place(const Program::Use& use) {
  auto& storage = storages_[at(use.slot)];
  const auto& slot = program_->slots[at(use.slot)];
  if (!storage && slot.external) storage = slot.external;
  if (!storage) {
    storage = std::make_shared<Storage>(session_, use.spec.elements());
    const auto& p = plan_.places.empty() ? MemoryPlan::Place{} : plan_.places[at(use.slot)];
    if (p.slab >= 0) {
      const auto& slab = static_cast<const DeviceMemory&>(*slabs_[at(p.slab)]).region();
      storage->memory = std::make_shared<DeviceMemory>(opencl::Region{slab.block, slab.offset + p.offset, slot.bytes});
    } else {
      storage->memory = session_.interpreter().allocate(use.spec, "graph");
    }
  }
  return {use.spec, storage, use.offset};
}

void Executor::fill_in(int slot, const Value& value) {
  for (const Patch& p : patches_[at(slot)]) {
    const auto& step = program_->code[p.instruction];
    const auto& use = (p.output ? step.outputs : step.inputs)[p.index];
    (p.output ? bound_[p.instruction].out : bound_[p.instruction].in)[p.index] = Value(use.spec, value.storage(), value.offset() + use.offset);
  }
}

void Executor::allocate_outputs() {
  std::vector<bool> is_input(program_->slots.size(), false);
  for (const auto& u : program_->inputs) is_input[at(u.slot)] = true;
  for (const auto& step : program_->code)
    for (const auto& u : step.outputs)
      if (!storages_[at(u.slot)] && !is_input[at(u.slot)]) {
        made_[at(u.slot)] = session_.empty(u.spec, step.op->name);
        fill_in(u.slot, made_[at(u.slot)]);
      }
}

void Executor::execute() {
  Interpreter& interpreter = session_.interpreter();
  for (std::size_t i = 0; i < program_->code.size(); ++i) {
    const auto& step = program_->code[i];
    std::optional<PathScope> path;
    if (interpreter.observed()) path.emplace(session_, std::make_shared<const std::string>(step.scope));
    interpreter.compute(*step.op, step.attributes, bound_[i].in, bound_[i].out);
    for (int w : step.op->writes) ++bound_[i].in[at(w)].storage()->version;  // an eager tensor saved before is stale now
  }
}

Values Executor::run(const Values& inputs) {
  if (inputs.size() != program_->inputs.size())
    throw ShapeError("graph: " + std::to_string(inputs.size()) + " inputs given; accepted: " + std::to_string(program_->inputs.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].spec() != program_->inputs[i].spec)
      throw ShapeError("graph: input " + std::to_string(i) + " is " + to_string(inputs[i].spec()) + "; accepted: " + to_string(program_->inputs[i].spec));
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
  for (std::size_t s = 0; s < made_.size(); ++s)
    if (made_[s]) {  // let go: the arena alone stays between runs
      made_[s] = Value();
      fill_in(static_cast<int>(s), Value());
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
  return *entries_.emplace(program.get(), Entry{program, std::make_unique<Executor>(session, not_kept)}).first->second.executor;
}

}  // namespace gemel
