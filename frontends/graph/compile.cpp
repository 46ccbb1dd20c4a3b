#include "frontends/graph/compile.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/core/op.h"

namespace gemel::graph {
namespace {

const OpDef& compiled_def() {  // the name of the node, in errors and listings
  static const OpDef def{.name = "compile", .doc = "A compiled function."};
  return def;
}

/// In place of a history: a backward pass that comes here is refused, rather than that it ends here and leaves gradients undefined.
std::shared_ptr<Node> no_history(Session& session) {
  auto node = std::make_shared<Node>();
  node->op = &compiled_def();
  node->order = session.next_node();
  node->released = true;
  node->refusal =
      "its results have no history that a backward pass could follow; accepted: gradients that are taken within the function and returned "
      "by it, or used there by an optimizer's apply_updates; or detach() of its results";
  return node;
}

}  // namespace

Compiled::Compiled(Session& session, Function function, PassNames passes) : session_(session), function_(std::move(function)), passes_(std::move(passes)) {}

Compiled::Plan Compiled::make(const Specs& specs) {
  Plan plan;
  const auto traced = [&](const Values& in) {
    session_.trace().assume([&session = session_, enabled = session_.gradients_enabled()] { return session.gradients_enabled() == enabled; });
    Values out = function_(in);
    for (const Value& v : out) plan.leads_back.push_back(v && v.wants_gradient() && (!v.node()->released || v.node()->refusal));
    return out;
  };
  Program program = optimise(session_, capture(session_, specs, traced), passes_, &plan.passes);
  plan.executor = std::make_unique<Executor>(session_, std::make_shared<const Program>(std::move(program)));
  return plan;
}

Values Compiled::operator()(const Values& inputs) {
  if (session_.capturing())
    throw UsageError(
        "compile: a compiled function is called while a graph is captured, where its results would be constants; accepted: a call of the function that it was "
        "compiled from");
  std::string signature;
  for (const Value& v : inputs) signature += to_string(v.spec()) + ";";
  const auto [begin, end] = plans_.equal_range(signature);
  auto it = std::find_if(begin, end, [](const auto& entry) { return still_holds(entry.second.executor->program()); });
  if (it == end) it = plans_.emplace(signature, make(specs_of(inputs)));
  return with_refusal(it->second.executor->run(inputs), it->second, inputs);
}

/// Results that would have a history, had they been computed at once. What becomes of an input within the function is not known.
Values Compiled::with_refusal(Values results, const Plan& plan, const Values& inputs) const {
  const bool from_input = std::ranges::any_of(inputs, &Value::wants_gradient);
  if (!session_.gradients_enabled() || !(from_input || std::ranges::count(plan.leads_back, true))) return results;
  const auto node = no_history(session_);
  for (std::size_t o = 0; o < results.size(); ++o)
    if (is_floating(results[o].dtype()) && (from_input || plan.leads_back[o])) results[o] = results[o].with_node(node, static_cast<int>(o));
  return results;
}

ArenaUse Compiled::arena() const {
  ArenaUse most;
  for (const auto& [signature, plan] : plans_)
    if (const MemoryPlan& p = plan.executor->plan(); p.arena_bytes > most.bytes) most = {p.arena_bytes, p.lower_bound};
  return most;
}

Compiled compile(Session& session, Function function, PassNames passes) { return {session, std::move(function), std::move(passes)}; }

}  // namespace gemel::graph
