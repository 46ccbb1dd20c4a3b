// Runner: runs the part of a graph that is asked for, as TensorFlow 1's Session does.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/executor.h"
#include "engine/passes/passes.h"
#include "frontends/graph/graph.h"

namespace gemel::graph {

/// A placeholder and what it is fed.
using Feed = std::pair<Value, Value>;

/// Each set of fetches is pruned, optimised and planned once, when it is first asked for. The graph outlives its runners.
class Runner {
 public:
  explicit Runner(Graph& graph, PassNames passes = parse_passes("all"));

  /// Runs what the fetches and their control dependencies need, and nothing else: a variable changes only where an operation
  /// that changes it is fetched. Draws are new at each run: the random state is (seed, number of the run) unless it is fed.
  /// @param feeds    what the fetches need at least
  /// @param fetches  values and operations
  /// @return one a fetch, in memory of its own; an empty value for an operation
  /// @throws UsageError a placeholder that is needed and not fed, a feed that is no placeholder, a fetch of another graph
  /// @throws ShapeError a feed of another spec
  Values run(const std::vector<Feed>& feeds, const std::vector<Fetch>& fetches);

  /// A planned set of fetches.
  struct Plan {
    std::unique_ptr<Executor> executor;
    std::vector<std::size_t> inputs;  // of the graph
    std::vector<PassReport> passes;
  };
  const std::map<std::string, Plan>& plans() const { return plans_; }
  std::int64_t runs() const { return runs_; }

 private:
  const Plan& plan_for(const std::vector<Fetch>& fetches);
  std::map<std::size_t, Value> checked(const std::vector<Feed>& feeds) const;
  Graph& graph_;
  PassNames passes_;
  std::map<std::string, Plan> plans_;
  std::int64_t runs_ = 0;
};

}  // namespace gemel::graph
