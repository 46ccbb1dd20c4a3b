#include "frontends/graph/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/base/error.h"
#include "engine/base/span.h"

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

}  // namespace

Runner::Runner(Graph& graph, PassNames passes) : graph_(graph), passes_(std::move(passes)) {}

const Runner::Plan& Runner::plan_for(const std::vector<Fetch>& fetches) {
  const std::string key = signature(graph_, fetches);
  if (const auto it = plans_.find(key); it != plans_.end()) return it->second;
  Pruned part = graph_.part(fetches);
  Plan plan;
  plan.inputs = std::move(part.inputs);
  Program program = optimise(graph_.session(), std::move(part.program), passes_, &plan.passes);
  plan.executor = std::make_unique<Executor>(graph_.session(), std::make_shared<const Program>(std::move(program)));
  return plans_.emplace(key, std::move(plan)).first->second;
}

std::map<std::size_t, Value> Runner::checked(const std::vector<Feed>& feeds) const {
  const Program& program = graph_.program();
  std::map<std::size_t, Value> out;
  for (const auto& [placeholder, value] : feeds) {
    const bool known = placeholder && graph_.trace().knows(placeholder);
    const int slot = known ? graph_.trace().use(placeholder, "feed").slot : -1;
    const auto it = std::find_if(program.inputs.begin(), program.inputs.end(), [&](const auto& u) { return u.slot == slot; });
    if (it == program.inputs.end())
      throw UsageError(fmt::format("run: what is fed is no placeholder of '{}'; accepted: {}", graph_.name(), placeholders_of(graph_)));
    const std::string& name = program.slots[at(slot)].name;
    if (!value) throw UsageError(fmt::format("run: placeholder '{}' is fed an empty value; accepted: {}", name, to_string(it->spec)));
    if (value.spec() != it->spec)
      throw ShapeError(fmt::format("run: placeholder '{}' is fed {}; accepted: {}", name, to_string(value.spec()), to_string(it->spec)));
    if (!value.storage()->memory)
      throw UsageError(fmt::format("run: placeholder '{}' is fed a name in the graph '{}'; accepted: a computed value", name,
                                   value.storage()->graph ? *value.storage()->graph : ""));
    if (!out.emplace(static_cast<std::size_t>(it - program.inputs.begin()), value).second)
      throw UsageError(fmt::format("run: placeholder '{}' is fed twice; accepted: once", name));
  }
  return out;
}

Values Runner::run(const std::vector<Feed>& feeds, const std::vector<Fetch>& fetches) {
  const auto fed = checked(feeds);
  const Plan& plan = plan_for(fetches);
  const Program& program = graph_.program();
  Values inputs;
  for (std::size_t i : plan.inputs) {
    const auto& use = program.inputs[i];
    if (const auto it = fed.find(i); it != fed.end()) {
      inputs.push_back(it->second);
    } else if (i == 0) {  // the random state, a graph's first input
      const std::array state{static_cast<std::int64_t>(graph_.session().seed()), runs_, std::int64_t{0}, std::int64_t{0}};
      inputs.push_back(graph_.session().tensor(i64({4}), std::as_bytes(std::span(state))));
    } else {
      throw UsageError(fmt::format("run: placeholder '{}' {} is not fed; accepted: a value for each placeholder that the fetches need",
                                   program.slots[at(use.slot)].name, to_string(use.spec)));
    }
  }
  Values results = plan.executor->run(inputs);
  ++runs_;
  Values out;
  std::size_t next = 0;
  for (const Fetch& fetch : fetches) out.push_back(std::holds_alternative<Value>(fetch) ? std::move(results[next++]) : Value());
  return out;
}

}  // namespace gemel::graph
