// compile: a function over tensors, captured once for each input signature and run as a planned graph from then on.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/session.h"
#include "engine/graph/run/executor.h"
#include "engine/passes/passes.h"

namespace gemel::graph {

using Function = std::function<Values(const Values&)>;

/// Bytes of a planned arena, and the least that any plan of the same program takes.
struct ArenaUse {
  std::int64_t bytes = 0, least = 0;
};

/// Calling it captures the function when these input specs are new (the last, smaller batch is a second plan), or when a module that
/// it runs changed its mode, or a leaf was frozen, since; then it replays the plan. Parameters and statistics that the function uses
/// are bound; every update of them is kept, whatever is fetched. What must vary between calls (rates, random state, data) is an input.
/// Gradients are taken within the function: where one is asked of its results, the backward pass is refused.
class Compiled {
 public:
  Compiled(Session& session, Function function, PassNames passes);
  Values operator()(const Values& inputs);

  /// Plans made so far, by input signature: one for each set of modes.
  struct Plan {
    std::unique_ptr<Executor> executor;
    std::vector<PassReport> passes;
    std::vector<bool> leads_back;  // [output] whether it has a history in the function
  };
  const std::multimap<std::string, Plan>& plans() const { return plans_; }
  /// Of the largest plan: the session's arena is shared by all.
  ArenaUse arena() const;

 private:
  Plan make(const Specs& specs);
  Values with_refusal(Values results, const Plan& plan, const Values& inputs) const;
  Session& session_;
  Function function_;
  PassNames passes_;
  std::multimap<std::string, Plan> plans_;
};

/// All passes unless told otherwise.
Compiled compile(Session& session, Function function, PassNames passes = parse_passes("all"));

}  // namespace gemel::graph
