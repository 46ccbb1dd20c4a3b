// compile: captures a function over tensors once for each input signature, and runs it as a planned graph from then on.
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

/// Bytes of a planned arena, and a lower bound for any plan of the same program.
struct ArenaUse {
  std::int64_t bytes = 0, least = 0;
};

/// Captures the function when it is called with new input specs (a smaller last batch has a second plan), or after a module that it runs changed its mode, or a
/// leaf was frozen; else replays the plan. Parameters and statistics that the function uses are bound, and all their updates are kept, whatever is fetched.
/// What varies between calls (rates, random state, data) must be an input. Gradients are computed within the function; a backward pass from its results is
/// refused.
class Compiled {
 public:
  Compiled(Session& session, Function function, PassNames passes);
  Values operator()(const Values& inputs);

  /// A plan for an input signature and a set of modes.
  struct Plan {
    std::unique_ptr<Executor> executor;
    std::vector<PassReport> passes;
    std::vector<bool> leads_back;  // [output] true if it has a history in the function
  };
  const std::multimap<std::string, Plan>& plans() const { return plans_; }
  /// Arena of the largest plan; all plans share the session's arena.
  ArenaUse arena() const;

 private:
  Plan make(const Specs& specs);
  Values with_refusal(Values results, const Plan& plan, const Values& inputs) const;
  Session& session_;
  Function function_;
  PassNames passes_;
  std::multimap<std::string, Plan> plans_;
};

/// Compiles with all passes by default.
Compiled compile(Session& session, Function function, PassNames passes = parse_passes("all"));

}  // namespace gemel::graph
