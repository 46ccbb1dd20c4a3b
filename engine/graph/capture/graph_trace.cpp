#include "engine/graph/capture/graph_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/gradients/row_gradient.h"

namespace gemel {

GraphTrace::GraphTrace(Session& session, Outside outside, std::string name)
    : session_(session),
      outside_(outside),
      name_(std::make_shared<const std::string>(std::move(name))),
      first_node_(session.nodes_made()),
      enclosing_(session.trace()),
      random_(session.random()) {}

Value GraphTrace::input(const Spec& spec, std::string name) {
  Value v(spec, std::make_shared<Storage>(session_, spec.elements()));
  program_.inputs.push_back({define(v, std::move(name)), spec});
  if (outside_ != Outside::passed || !is_floating(spec.dtype)) return v;
  v = leaf(v);  // a body is differentiated with respect to its own arguments
  arguments_.insert(v.node().get());
  return v;
}

void GraphTrace::run(const OpDef& op, const Attributes& attributes, Values& in, Values& out) {
  Program::Instruction step{&op, attributes, {}, {}, *session_.scope(), after(), {}};
  for (const Value& v : in) step.inputs.push_back(use(v, op.name));
  for (const Value& v : out) step.outputs.push_back(made(op, v));
  check_draw(op, step, in);
  check_writes(op, step, in);
  program_.code.push_back(std::move(step));
}

/// How the program refers to an output: a name of its own, or memory from outside that the instruction fills.
Program::Use GraphTrace::made(const OpDef& op, const Value& v) {
  if (!v.storage()->memory) return {define(v), v.spec()};
  if (differentiates_by_replay()) throw InternalError(op.name + ": what is to be replayed writes its output into memory from outside");
  Program::Use filled = use(v, op.name);
  ++filled.version;
  return filled;
}

void GraphTrace::check_draw(const OpDef& op, const Program::Instruction& step, const Values& in) const {
  for (std::size_t i = 0; i < in.size(); ++i) {
    // A branch or a body is given the state only if it draws.
    const bool draws = op.draws ? at(*op.draws) == i : op.execute && session_.random().is_state(in[i]);
    if (draws && program_.slots[at(step.inputs[i].slot)].external)
      throw UsageError(op.name + ": the random state is a constant of this graph, every replay would draw the same; accepted: a state that is an input");
  }
}

void GraphTrace::check_writes(const OpDef& op, const Program::Instruction& step, const Values& in) const {
  for (int w : op.writes) {
    const int slot = step.inputs[at(w)].slot;
    const bool is_argument = knows(in[at(w)]) && std::ranges::any_of(program_.inputs, [slot](const auto& input) { return input.slot == slot; });
    const std::string& name = program_.slots[at(slot)].name;
    if (is_argument && !name.empty())
      throw UsageError(
          fmt::format("{}: writes the placeholder '{}' of '{}', in the memory of what is fed; accepted: a variable, or a copy", op.name, name, *name_));
    if (outside_ == Outside::passed && (is_argument || !knows(in[at(w)])))
      throw UsageError(op.name + ": writes a value from outside this body; accepted: a pure body, which its gradient can run again");
  }
}

void GraphTrace::back_to(Mark mark) {
  program_ = std::move(mark.program);
  slot_of_ = std::move(mark.slot_of);
  writes_ = std::move(mark.writes);
  random() = std::move(mark.random);
}

Program GraphTrace::finish(const Values& outputs) {
  for (const Value& v : outputs) {
    if (!v) throw UsageError(fmt::format("graph: output {} of '{}' is empty; accepted: a tensor", program_.outputs.size(), *name_));
    program_.outputs.push_back(use(v, "output"));
  }
  return std::move(program_);
}

int GraphTrace::define(const Value& v, std::string name) {
  const int slot = static_cast<int>(program_.slots.size());
  slot_of_[v.storage()] = slot;
  if (!v.storage()->memory) v.storage()->graph = name_;
  program_.slots.push_back({v.spec().bytes(), nullptr, std::move(name), v.spec()});
  return slot;
}

Program::Use GraphTrace::use_bound(const Value& v, const std::string& who) {
  const auto& storage = v.storage();
  refuse_rows(who + ": the value", v);
  if (!storage->memory)
    throw UsageError(fmt::format("{}: a value {} of the graph '{}' is used in the graph '{}'; accepted: values of this graph, or computed ones", who,
                                 to_string(v.spec()), storage->graph ? *storage->graph : "", *name_));
  program_.slots[at(define(v))].external = storage;
  return use(v, who);
}

Program::Use GraphTrace::use_passed(const Value& v) {
  const bool tracked = has_history(v);
  const Value given = tracked ? v : v.detached();
  const auto [it, is_new] = foreign_.try_emplace(
      Foreign{given.storage(), given.offset(), {given.shape().begin(), given.shape().end()}, given.dtype(), given.node().get(), given.output()},
      static_cast<int>(program_.slots.size()));
  if (is_new) {
    program_.slots.push_back({v.spec().bytes(), nullptr, "", v.spec()});
    program_.inputs.push_back({it->second, v.spec()});
    program_.captured.push_back(given);
  }
  return {it->second, v.spec(), 0, version(v.storage()), tracked};
}

Program::Use GraphTrace::use(const Value& v, const std::string& who) {
  assume_of_leaf(v);
  const auto it = slot_of_.find(v.storage());
  if (it == slot_of_.end()) return outside_ == Outside::passed ? use_passed(v) : use_bound(v, who);
  return {it->second, v.spec(), v.offset(), version(v.storage()), has_history(v)};
}

void GraphTrace::name_slot(const Value& value, const std::string& name) { program_.slots[at(use(value, name).slot)].name = name; }

/// Whether a gradient goes to it decides what is recorded, and what has a history.
void GraphTrace::assume_of_leaf(const Value& v) {
  if (!v.node() || v.node()->op || arguments_.contains(v.node().get()) || !leaves_.insert(v.node()->order).second) return;
  assume(stays_as_frozen(v, nodes_before()));
}

void GraphTrace::assume(std::function<bool()> still_holds) {
  if (outside_ == Outside::passed) return enclosing_.assume(std::move(still_holds));
  program_.assumptions.push_back(std::move(still_holds));
}

bool GraphTrace::has_history(const Value& v) const {  // a leaf made inside the body is a fresh start
  return v.wants_gradient() && (outside_ != Outside::passed || v.node()->op || v.node()->order <= first_node_ || arguments_.count(v.node().get()));
}

Writes& GraphTrace::writes(const std::shared_ptr<Storage>& storage) {
  if (!storage->memory) return storage->writes;
  if (outside_ == Outside::passed) return enclosing_.writes(storage);
  return writes_.try_emplace(storage, storage->writes).first->second;
}

namespace {

/// The nodes, by age, at which a backward pass from the outputs to the inputs stops.
std::vector<const Node*> between(const Values& outputs, const Values& inputs) {
  std::map<std::uint64_t, const Node*> reached;
  std::vector<const Node*> open, out;
  const auto reach = [&](const Value& v) {
    if (v.node() && reached.emplace(v.node()->order, v.node().get()).second) open.push_back(v.node().get());
  };
  std::ranges::for_each(outputs, reach);
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    for (const auto& s : node->inputs) reach(s.value);
  }
  std::set<const Node*> needed;
  for (const Value& v : inputs) needed.insert(v.node().get());
  for (const auto& [order, node] : reached) {
    if (std::ranges::any_of(node->inputs, [&](const auto& s) { return s.value.node() && needed.contains(s.value.node().get()); })) needed.insert(node);
    if (needed.contains(node)) out.push_back(node);
  }
  return out;
}

}  // namespace

std::vector<int> GraphTrace::changes_since(const Values& outputs, const Values& inputs) {
  std::set<int> out;
  const auto add_last = [&](const std::shared_ptr<Storage>& storage, std::uint64_t count) {
    for (std::size_t i = program_.code.size(); i-- > 0 && count > 0;)
      for (int slot : written_by(program_, program_.code[i])) {
        const auto& written = program_.slots[at(slot)].external;
        if (count == 0 || !written || (written != storage && written->whole != storage && storage->whole != written)) continue;
        out.insert(static_cast<int>(i));
        --count;
      }
  };
  for (const Node* node : between(outputs, inputs))
    for (const auto* saved : {&node->inputs, &node->outputs})
      for (const auto& s : *saved)
        if (s.value && s.value.storage()->memory && s.version < version(s.value.storage())) add_last(s.value.storage(), version(s.value.storage()) - s.version);
  for (int i : after()) out.erase(i);
  return {out.begin(), out.end()};
}

GraphTrace::AsBefore::AsBefore(GraphTrace& graph, std::vector<int> changes) : graph_(graph), changes_(std::move(changes)), first_(graph.program_.code.size()) {
  each_write([](std::uint64_t& count) { --count; });
}

GraphTrace::AsBefore::~AsBefore() {
  each_write([](std::uint64_t& count) { ++count; });
  for (int i : changes_)
    for (std::size_t k = first_; k < graph_.program_.code.size(); ++k) graph_.program_.code[at(i)].after.push_back(static_cast<int>(k));
}

template <class F>
void GraphTrace::AsBefore::each_write(F f) {
  for (int i : changes_)
    for (int slot : written_by(graph_.program_, graph_.program_.code[at(i)]))
      if (const auto& storage = graph_.program_.slots[at(slot)].external) {
        f(graph_.writes(storage).own);
        if (storage->whole) f(graph_.writes(storage->whole).ranges);
      }
}

GraphTrace::~GraphTrace() {
  if (in_force_) in_force_->end();
}

GraphTrace::InForce::InForce(GraphTrace& graph) : graph_(&graph) {
  trace_.emplace(graph.session_, graph);
  random_.emplace(graph.session_, graph.random_);
  graph.in_force_ = this;
}

void GraphTrace::InForce::end() {
  if (!graph_) return;
  GraphTrace& graph = *std::exchange(graph_, nullptr);
  graph.in_force_ = nullptr;
  random_.reset();
  trace_.reset();
  // A body's draws are followed by others of the same step: these are not the same.
  if (graph.outside_ == Outside::passed) graph.session_.random().continue_ordinals(graph.random_);
}

}  // namespace gemel
