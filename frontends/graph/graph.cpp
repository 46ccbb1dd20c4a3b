#include "frontends/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/graph/capture/instruction_order.h"
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

std::string Graph::scoped(const std::string& name) const { return session_.scope()->empty() ? name : *session_.scope() + "." + name; }

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

Value Graph::constant(const Spec& spec, std::span<const double> numbers, const std::string& name) {
  return named_constant(session_.tensor(spec, numbers), name);
}
Value Graph::constant(const Spec& spec, std::span<const float> numbers, const std::string& name) {
  return named_constant(session_.tensor(spec, numbers), name);
}

Value Graph::named_constant(const Value& value, const std::string& name) {
  std::string path = scoped(name.empty() ? "constant" : name);
  for (int i = 1; name.empty() && names_.contains(path); ++i) path = scoped(fmt::format("constant_{}", i));
  claim(path, value);
  trace_.name_slot(value, path);
  return value;
}

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
  keep(path, kept);
  return kept;
}

/// A leaf is a parameter; one tensor may have two names.
void Graph::keep(const std::string& path, const Value& variable) {
  const bool is_new = !trace_.knows(variable);
  claim(path, variable);
  if (variable.node())
    variables_.add_parameter(path, variable);
  else
    variables_.add_buffer(path, variable);
  if (is_new || trace_.program().slots[at(trace_.use(variable, path).slot)].name.empty()) trace_.name_slot(variable, path);
}

void Graph::add(const ParameterSet& parameters) {
  for (const auto& list : {parameters.parameters(), parameters.buffers()})
    for (const auto& [name, value] : list) {
      const std::string path = scoped(name);
      const Value* known = variables_.find(path);
      if (!known || known->storage() != value.storage()) keep(path, value);
    }
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

/// "x, float32 [2], is a placeholder"
std::string Graph::described(const Value& value) const {
  const auto is_it = [&](const auto& entry) {
    const auto* named = std::get_if<Value>(&entry.second);
    return named && *named && named->storage() == value.storage();
  };
  const auto known = std::ranges::find_if(names_, is_it);
  const std::string name = known == names_.end() ? "a value" : known->first;
  const auto is_fed = [&](const Program::Use& input) { return program().slots[at(input.slot)].name == name; };
  const char* kind = std::ranges::any_of(program().inputs, is_fed) ? "a placeholder"
                     : variables_.find(name)                       ? "a variable that is not trained"
                                                                   : "computed from no variable that is trained";
  return fmt::format("{}, {}, is {}", name, to_string(value.spec()), kind);
}

Values Graph::gradients(const Value& loss, const Values& variables) {
  for (const Value& v : variables)
    if (!v || !v.node())
      throw UsageError(
          fmt::format("gradients: {}; accepted: variables that are trained, and what is computed from them", v ? described(v) : "an empty value is given"));
  const Building building(*this);
  return gradients_as_read(loss, variables);
}

/// Gradients of the loss as it was built, whatever was changed since.
/// @param into  as GradientOptions::into; not where they come before a change, as something earlier reads what is put there for it
Values Graph::gradients_as_read(const Value& loss, const Values& variables, Values into) {
  const std::vector<int> changes = trace_.changes_since({loss}, variables);
  for (Value& place : into) {
    const auto is_place = [&](const Program::Use& u) {
      const auto& read = program().slots[at(u.slot)].external;
      return read && (read == place.storage() || read == place.storage()->whole);
    };
    const auto reads_place = [&](const Program::Instruction& step) { return std::ranges::any_of(step.inputs, is_place); };
    if (place && !changes.empty() && std::ranges::any_of(program().code, reads_place)) place = {};
  }
  const GraphTrace::AsBefore as_before(trace_, changes);
  return gradient({loss}, variables, {}, {.tape = Tape::retain, .into = std::move(into)});
}

Operation Graph::minimize(const Value& loss, optim::Optimizer& optimizer, const std::string& name) {
  const Building building(*this);
  GraphTrace::Mark before = trace_.mark();
  auto names = names_;
  auto variables = variables_;
  try {
    return add_training(loss, optimizer, name);
  } catch (...) {
    trace_.back_to(std::move(before));
    names_ = std::move(names);
    variables_ = std::move(variables);
    throw;
  }
}

Operation Graph::add_training(const Value& loss, optim::Optimizer& optimizer, const std::string& name) {
  Training training{0, optimizer.hyperparameters(), {}, {}};
  ParameterSet state;
  for (const auto& [path, value] : optimizer.parameters()) {
    state.add_parameter(path, value);
    training.names.push_back(scoped(path));
  }
  add(state);
  for (const auto& [slot, value] : optimizer.state()) keep(scoped(name + "." + slot), value);
  const Value hyper = placeholder(optimizer.hyper_specs()[0], name + ".hyperparameters");
  training.input = program().inputs.size() - 1;
  Operation step = group(name, [&] {
    Values gradients = gradients_as_read(loss, values_of(optimizer.parameters()), optimizer.gradient_places());
    for (std::size_t i = 0; i < gradients.size(); ++i)
      training.gradients.push_back(!optimizer.parameters()[i].value.wants_gradient() ? Gradient::frozen : gradients[i] ? Gradient::given : Gradient::none);
    if (std::ranges::find(training.gradients, Gradient::given) == training.gradients.end())
      throw UsageError(
          fmt::format("minimize: the loss {} of '{}' reaches no parameter of the optimizer that is not frozen, such as {}; accepted: a loss computed from one",
                      to_string(loss.spec()), name, training.names[0]));
    optimizer.apply_updates(std::move(gradients), {hyper});
  });
  trainings_.emplace(step.name, std::move(training));
  return step;
}

void Graph::Training::count() const {
  std::vector<bool> has_gradient(hyperparameters->rows.size(), false);
  for (std::size_t i = 0; i < gradients.size(); ++i) has_gradient[i] = gradients[i] == Gradient::given;
  hyperparameters->count(has_gradient);
}

Value Graph::Training::tensor(Session& session) const {
  optim::Hyperparameters built = *hyperparameters;
  built.rows.resize(names.size());
  return built.tensor(session, built.rate);
}

std::vector<std::int64_t> Graph::Training::parameter_steps() const {
  std::vector<std::int64_t> out = hyperparameters->parameter_steps();
  out.resize(names.size());
  return out;
}

optim::Hyperparameters& Graph::hyperparameters(std::string_view operation) const {
  if (const auto it = trainings_.find(operation); it != trainings_.end()) return *it->second.hyperparameters;
  std::string known;
  for (const auto& [n, training] : trainings_) known += (known.empty() ? "" : ", ") + n;
  throw UsageError(fmt::format("graph: no operation '{}' of minimize in '{}'; accepted: {}", operation, name(), known.empty() ? "none is there" : known));
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

Pruned Graph::part(const std::vector<Fetch>& fetches, std::vector<Program::Use> given, std::vector<int> without) {
  Wanted wanted{.values = {}, .instructions = {}, .given = std::move(given), .without = std::move(without)};
  for (const Fetch& fetch : fetches) {
    check_ours(*this, fetch);
    if (const auto* value = std::get_if<Value>(&fetch))
      wanted.values.push_back(trace_.use(*value, "fetch"));
    else
      for (int i : std::get<Operation>(fetch).instructions) wanted.instructions.push_back(i);
  }
  Pruned out = prune(program(), std::move(wanted));
  out.program = in_order(std::move(out.program));
  return out;
}

std::vector<int> Graph::after(const std::vector<Fetch>& before) {
  std::vector<int> all = trace_.after();
  for (const Fetch& fetch : before) {
    check_ours(*this, fetch);
    if (const auto* op = std::get_if<Operation>(&fetch)) {
      all.insert(all.end(), op->instructions.begin(), op->instructions.end());
      continue;
    }
    const int slot = trace_.use(std::get<Value>(fetch), "control dependency").slot;
    for (std::size_t i = 0; i < program().code.size(); ++i)
      for (const auto& u : program().code[i].outputs)
        if (u.slot == slot) all.push_back(static_cast<int>(i));
  }
  return all;
}

Graph::ControlDependencies::ControlDependencies(Graph& graph, const std::vector<Fetch>& before) : scope_(graph.trace_, graph.after(before)) {}

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
