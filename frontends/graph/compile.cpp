#include "frontends/graph/compile.h"

#include <algorithm>

namespace gemel::graph {

Compiled::Compiled(Session& session, Function function, PassNames passes)
    : session_(session), function_(std::move(function)), passes_(std::move(passes)) {}

Compiled::Plan Compiled::make(const Specs& specs) {
  Plan plan;
  Program program = optimise(session_, capture(session_, specs, function_), passes_, &plan.passes);
  plan.executor = std::make_unique<Executor>(session_, std::make_shared<const Program>(std::move(program)));
  return plan;
}

Values Compiled::operator()(const Values& inputs) {
  std::string signature;
  for (const Value& v : inputs) signature += to_string(v.spec()) + ";";
  const auto [begin, end] = plans_.equal_range(signature);
  auto it = std::find_if(begin, end, [](const auto& entry) { return still_holds(entry.second.executor->program()); });
  if (it == end) it = plans_.emplace(signature, make(specs_of(inputs)));
  return it->second.executor->run(inputs);
}

ArenaUse Compiled::arena() const {
  ArenaUse most;
  for (const auto& [signature, plan] : plans_)
    if (const MemoryPlan& p = plan.executor->plan(); p.arena_bytes > most.bytes) most = {p.arena_bytes, p.lower_bound};
  return most;
}

Compiled compile(Session& session, Function function, PassNames passes) {
  return {session, std::move(function), std::move(passes)};
}

}  // namespace gemel::graph
