#include "frontends/graph/runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/graph/capture/open_extent.h"
#include "frontends/graph/frozen_parameters.h"

namespace gemel::graph {
namespace {

/// What tells one set of fetches from another.
std::string signature(Graph& graph, const std::vector<Fetch>& fetches) {
  std::string out;
  for (const Fetch& fetch : fetches) {
    if (const auto* op = std::get_if<Operation>(&fetch)) {
      out += op->graph == &graph ? "op " + op->name + ";" : "foreign;";
    } else if (const Value& v = std::get<Value>(fetch); v && graph.trace().knows(v)) {
      const auto use = graph.trace().use(v, "fetch");
      out += fmt::format("{}+{}:{};", use.slot, use.offset, to_string(use.spec));
    } else {
      out += "foreign;";
    }
  }
  return out;
}

std::string placeholders_of(const Graph& graph) {
  std::string out;
  for (const auto& u : graph.program().inputs) out += (out.empty() ? "" : ", ") + graph.program().slots[at(u.slot)].name;
  return out;
}

/// The input that a use is a name of; the number of inputs where it is none.
std::size_t input_of(const Program& program, const Program::Use& use) {
  return static_cast<std::size_t>(std::ranges::find(program.inputs, use.slot, &Program::Use::slot) - program.inputs.begin());
}

}  // namespace

Runner::Runner(Graph& graph, PassNames passes, std::size_t most_plans) : graph_(graph), passes_(std::move(passes)), most_plans_(most_plans) {
  if (most_plans == 0) throw UsageError("runner: 0 plans may be kept; accepted: at least 1");
}

Runner::Plan& Runner::plan_for(const std::vector<Fetch>& fetches, const Fed& fed) {
  std::string key = signature(graph_, fetches) + frozen_signature(graph_);
  for (const auto& u : fed.uses) key += fmt::format("fed {}.{};", u.slot, u.version);
  if (fed.extent) key += fmt::format("extent {}", *fed.extent);
  if (const auto it = plans_.find(key); it != plans_.end()) {
    check_inputs(it->second, fed);
    return it->second;
  }
  Pruned part = graph_.part(fetches, fed.uses, updates_of_frozen(graph_));
  Plan plan;
  plan.inputs = std::move(part.inputs);
  plan.placeholders = graph_.program().inputs.size();
  check_inputs(plan, fed);
  skip_frozen(graph_, part.program);
  if (is_open(part.program)) {
    if (!fed.extent) throw UsageError("run: the fetches depend on the open extent, which no feed gives; accepted: a placeholder with it among the feeds");
    part.program = with_extent(part.program, *fed.extent);
  }
  Program program = optimise(graph_.session(), std::move(part.program), passes_, &plan.passes);
  plan.executor = std::make_unique<Executor>(graph_.session(), std::make_shared<const Program>(std::move(program)));
  if (plans_.size() == most_plans_) plans_.erase(std::ranges::min_element(plans_, {}, [](const auto& entry) { return entry.second.last_used; }));
  return plans_.emplace(std::move(key), std::move(plan)).first->second;
}

void Runner::check_feed(const Program::Use& use, const std::string& what, const Value& value, Fed& fed) const {
  if (!value) throw UsageError(fmt::format("run: {} is fed an empty value; accepted: {}", what, to_string(use.spec)));
  if (&value.session() != &graph_.session())
    throw UsageError(fmt::format("run: {} is fed {} of another session; accepted: tensors of the graph's session", what, to_string(value.spec())));
  const std::optional<std::int64_t> extent = is_open(use.spec) ? extent_between(use.spec, value.spec()) : std::nullopt;
  if (value.spec() != use.spec && !extent) throw ShapeError(fmt::format("run: {} is fed {}; accepted: {}", what, to_string(value.spec()), to_string(use.spec)));
  if (extent && fed.extent.value_or(*extent) != *extent)
    throw ShapeError(fmt::format("run: {} is fed {}, another feed has {} for ?; accepted: one extent for all", what, to_string(value.spec()), *fed.extent));
  if (extent) fed.extent = extent;
  if (!value.storage()->memory)
    throw UsageError(
        fmt::format("run: {} is fed a name in the graph '{}'; accepted: a computed value", what, value.storage()->graph ? *value.storage()->graph : ""));
}

Runner::Fed Runner::looked_up(const std::vector<Feed>& feeds) const {
  const Program& program = graph_.program();
  Fed fed;
  for (const auto& [fed_value, value] : feeds) {
    if (!fed_value || !graph_.trace().knows(fed_value))
      throw UsageError(
          fmt::format("run: what is fed is no value of '{}'; accepted: its values, the placeholders {} among them", graph_.name(), placeholders_of(graph_)));
    const Program::Use use = graph_.trace().use(fed_value, "feed");
    const std::size_t input = input_of(program, use);
    const std::string& name = program.slots[at(use.slot)].name;
    if (input < program.inputs.size()) {
      const std::string what = fmt::format("placeholder '{}'", name);
      check_feed(program.inputs[input], what, value, fed);
      if (!fed.placeholders.emplace(input, value).second) throw UsageError(fmt::format("run: {} is fed twice; accepted: once", what));
      continue;
    }
    const std::string what = name.empty() ? fmt::format("the value {}", to_string(use.spec)) : fmt::format("'{}'", name);
    check_feed(use, what, value, fed);
    if (std::ranges::any_of(fed.uses, [&](const auto& u) { return u.slot == use.slot && u.version == use.version; }))
      throw UsageError(fmt::format("run: {} is fed twice; accepted: once", what));
    fed.uses.push_back(use);
    fed.values.push_back(value);
  }
  return fed;
}

const std::pair<const std::string, Graph::Training>* Runner::training_for(std::size_t input) const {
  const auto found = std::ranges::find_if(graph_.trainings(), [&](const auto& t) { return t.second.input == input; });
  return found == graph_.trainings().end() ? nullptr : &*found;
}

void Runner::check_inputs(const Plan& plan, const Fed& fed) const {
  const Program& program = graph_.program();
  for (std::size_t i : plan.inputs)
    if (i < plan.placeholders)
      if (const auto* t = training_for(i)) check_not_thawed(t->first, t->second);
  for (std::size_t i : plan.inputs)
    if (i != 0 && i < plan.placeholders && !fed.placeholders.contains(i) && !training_for(i))
      throw UsageError(fmt::format("run: placeholder '{}' {} is not fed; accepted: a value for each placeholder that the fetches need",
                                   program.slots[at(program.inputs[i].slot)].name, to_string(program.inputs[i].spec)));
}

/// What is fed, else the random state or hyperparameters.
Value Runner::input(std::size_t input, const Plan& plan, const Fed& fed) const {
  Session& session = graph_.session();
  if (input >= plan.placeholders) return fed.values[input - plan.placeholders];
  if (const auto it = fed.placeholders.find(input); it != fed.placeholders.end()) return it->second;
  if (const auto* t = training_for(input)) return t->second.tensor(session);
  return random_state(session, graph_.runs());
}

Values Runner::run(const std::vector<Feed>& feeds, const std::vector<Fetch>& fetches) {
  const Fed fed = looked_up(feeds);
  Plan& plan = plan_for(fetches, fed);
  plan.last_used = ++uses_;
  Values inputs;
  for (std::size_t i : plan.inputs) inputs.push_back(input(i, plan, fed));
  Values results = plan.executor->run(inputs);
  graph_.count_run();
  for (std::size_t i : plan.inputs)
    if (const auto* t = i < plan.placeholders && !fed.placeholders.contains(i) ? training_for(i) : nullptr) t->second.count();
  Values out;
  std::size_t next = 0;
  for (const Fetch& fetch : fetches) out.push_back(std::holds_alternative<Value>(fetch) ? std::move(results[next++]) : Value());
  return out;
}

}  // namespace gemel::graph
