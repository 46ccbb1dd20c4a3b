#include "frontends/graph/compile.h"

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
  Specs specs;
  std::string signature;
  for (const Value& v : inputs) {
    specs.push_back(v.spec());
    signature += to_string(v.spec()) + ";";
  }
  auto it = plans_.find(signature);
  if (it == plans_.end()) it = plans_.emplace(signature, make(specs)).first;
  return it->second.executor->run(inputs);
}

std::int64_t Compiled::arena_bytes() const {
  std::int64_t most = 0;
  for (const auto& [signature, plan] : plans_) most = std::max(most, plan.executor->plan().arena_bytes);
  return most;
}

Compiled compile(Session& session, Function function, PassNames passes) {
  return {session, std::move(function), std::move(passes)};
}

}  // namespace gemel::graph
