#include "frontends/graph/graph.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/base/span.h"
#include "engine/ops/ops.h"
#include "frontends/graph/runner.h"

namespace gemel::graph {

Graph::Graph(Session& session, std::string name) : session_(session), trace_(session, Outside::bound, std::move(name)) {
  random_state_ = trace_.input(i64({4}), "random_state");
  names_.emplace("random_state", random_state_);
  trace_.random().begin(random_state_);
}

Graph::Building::Building(Graph& graph) {
  if (&graph.session_.trace() == &graph.trace_) return;
  if (graph.trace_.in_force())
    throw UsageError(fmt::format("graph: '{}' is built while another capture is in force inside of it; accepted: nodes of the inner one", graph.name()));
  in_force_.emplace(graph.trace_);
}

std::string Graph::scoped(const std::string& name) const {
  return session_.scope()->empty() ? name : *session_.scope() + "." + name;
}

void Graph::claim(const std::string& name, Fetch fetch) {
  if (name.empty()) throw UsageError(fmt::format("graph: a name in '{}' is empty; accepted: at least one character", this->name()));
  if (!names_.emplace(name, std::move(fetch)).second)
    throw UsageError(fmt::format("graph: the name '{}' is taken in '{}'; accepted: a new name", name, this->name()));
}

Value Graph::placeholder(const Spec& spec, const std::string& name) {
  const std::string path = scoped(name);
  if (names_.count(path)) claim(path, Value());
  Value v = trace_.input(spec, path);
  claim(path, v);
  return v;
}

Value Graph::constant(const Spec& spec, std::span<const double> numbers) { return session_.tensor(spec, numbers); }

Value Graph::variable(const Value& initial, const std::string& name, Trainable trainable) {
  const std::string path = scoped(name);
  Value kept;
  if (initial.storage()->memory) {
    kept = session_.empty(initial.spec(), path);
    session_.interpreter().copy(initial.detached(), kept);
  } else {
    kept = Runner(*this).run({}, {initial})[0];
  }
  if (trainable == Trainable::yes) kept = leaf(kept);
  claim(path, kept);
  if (trainable == Trainable::yes)
    variables_.add_parameter(path, kept);
  else
    variables_.add_buffer(path, kept);
  trace_.name_slot(kept, path);
  return kept;
}

Value Graph::named(const Value& value, const std::string& name) {
  trace_.use(value, "named");
  claim(scoped(name), value);
  return value;
}

Operation Graph::group(const std::string& name, const std::function<void()>& build) {
  const Building building(*this);
  Operation op{this, scoped(name), {}};
  const std::size_t from = program().code.size();
  build();
  for (std::size_t i = from; i < program().code.size(); ++i) op.instructions.push_back(static_cast<int>(i));
  claim(op.name, op);
  return op;
}

Operation Graph::assign(const Value& variable, const Value& value, const std::string& name) {
  return group(name, [&] { gemel::assign(variable, value); });
}

Values Graph::gradients(const Value& loss, const Values& variables) {
  const Building building(*this);
  return gradient({loss}, variables, {}, Tape::retain);
}

namespace {

[[noreturn]] void foreign(const Graph& graph, const std::string& what) {
  throw UsageError(fmt::format("graph: {} is not of the graph '{}'; accepted: values and operations of this graph", what, graph.name()));
}

void check_ours(Graph& graph, const Fetch& fetch) {
  if (const auto* value = std::get_if<Value>(&fetch)) {
    if (!*value) throw UsageError("graph: an empty value is asked for; accepted: values of this graph");
    if (!graph.trace().knows(*value))
      foreign(graph, fmt::format("the value {}{}", to_string(value->spec()), value->storage()->graph ? " of '" + *value->storage()->graph + "'" : ""));
  } else if (const auto& op = std::get<Operation>(fetch); op.graph != &graph) {
    foreign(graph, fmt::format("the operation '{}'", op.name));
  }
}

}  // namespace

Pruned Graph::part(const std::vector<Fetch>& fetches) {
  Wanted wanted;
  for (const Fetch& fetch : fetches) {
    check_ours(*this, fetch);
    if (const auto* value = std::get_if<Value>(&fetch))
      wanted.values.push_back(trace_.use(*value, "fetch"));
    else
      for (int i : std::get<Operation>(fetch).instructions) wanted.instructions.push_back(i);
  }
  return prune(program(), wanted);
}

Graph::ControlDependencies::ControlDependencies(Graph& graph, const std::vector<Fetch>& before) : trace_(graph.trace_) {
  std::vector<int> all = trace_.run_after({});
  outer_ = all;
  for (const Fetch& fetch : before) {
    check_ours(graph, fetch);
    if (const auto* op = std::get_if<Operation>(&fetch)) {
      all.insert(all.end(), op->instructions.begin(), op->instructions.end());
      continue;
    }
    const int slot = trace_.use(std::get<Value>(fetch), "control dependency").slot;
    for (std::size_t i = 0; i < graph.program().code.size(); ++i)
      for (const auto& u : graph.program().code[i].outputs)
        if (u.slot == slot) all.push_back(static_cast<int>(i));
  }
  trace_.run_after(std::move(all));
}

Value Graph::value(std::string_view name) const {
  const auto it = names_.find(name);
  if (it != names_.end())
    if (const auto* value = std::get_if<Value>(&it->second)) return *value;
  std::string known;
  for (const auto& [n, fetch] : names_)
    if (std::holds_alternative<Value>(fetch)) known += (known.empty() ? "" : ", ") + n;
  throw UsageError(fmt::format("graph: no value '{}' in '{}'; accepted: {}", name, this->name(), known));
}

const Operation& Graph::operation(std::string_view name) const {
  const auto it = names_.find(name);
  if (it != names_.end())
    if (const auto* op = std::get_if<Operation>(&it->second)) return *op;
  std::string known;
  for (const auto& [n, fetch] : names_)
    if (std::holds_alternative<Operation>(fetch)) known += (known.empty() ? "" : ", ") + n;
  throw UsageError(fmt::format("graph: no operation '{}' in '{}'; accepted: {}", name, this->name(), known.empty() ? "none is there" : known));
}

}  // namespace gemel::graph
