// Runner: runs the part of a graph that is asked for, as TensorFlow 1's Session does.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/graph/run/executor.h"
#include "engine/passes/passes.h"
#include "frontends/graph/graph.h"

namespace gemel::graph {

/// A value of the graph, most often a placeholder, and what it is fed.
using Feed = std::pair<Value, Value>;

/// Each set of fetches is pruned, optimised and planned once for each open extent, when it is first asked for. The graph outlives its
/// runners.
class Runner {
 public:
  /// @param most_plans  the one that was used longest ago is forgotten for a further one; at least 1
  explicit Runner(Graph& graph, PassNames passes = parse_passes("all"), std::size_t most_plans = 64);

  /// Runs what the fetches and their control dependencies need, and nothing else: a variable changes only where an operation
  /// that changes it is fetched. Draws are new at each run: the random state is (seed, number of the run) unless it is fed.
  /// @param feeds    what the fetches need at least. Any value may be fed: it is then not computed, and a variable not read
  /// @param fetches  values and operations
  /// @return one a fetch, in memory of its own; an empty value for an operation
  /// @throws UsageError a placeholder that is needed and not fed, a feed or a fetch of another graph; a parameter that was thawed after
  /// `minimize`
  /// @throws ShapeError a feed of another spec, or feeds with different open extents
  Values run(const std::vector<Feed>& feeds, const std::vector<Fetch>& fetches);

  /// A planned set of fetches.
  struct Plan {
    std::unique_ptr<Executor> executor;
    std::vector<std::size_t> inputs;  // of the graph
    std::size_t placeholders = 0;     // inputs of the graph when it was planned; what else is fed is numbered from here
    std::vector<PassReport> passes;
    std::uint64_t last_used = 0;
  };
  const std::map<std::string, Plan>& plans() const { return plans_; }

 private:
  /// Feeds, looked up in the graph.
  struct Fed {
    std::map<std::size_t, Value> placeholders;  // by the number of the input
    std::vector<Program::Use> uses;             // of other values
    Values values;                              // for them
    std::optional<std::int64_t> extent;         // the open one
  };
  Fed looked_up(const std::vector<Feed>& feeds) const;
  void check_feed(const Program::Use& use, const std::string& what, const Value& value, Fed& fed) const;
  void check_inputs(const Plan& plan, const Fed& fed) const;
  Plan& plan_for(const std::vector<Fetch>& fetches, const Fed& fed);
  /// The training operation that takes the numbers of its update by this input, with its name; null where none does.
  const std::pair<const std::string, Graph::Training>* training_for(std::size_t input) const;
  Value input(std::size_t input, const Plan& plan, const Fed& fed) const;
  Graph& graph_;
  PassNames passes_;
  std::size_t most_plans_;
  std::map<std::string, Plan> plans_;
  std::uint64_t uses_ = 0;
};

}  // namespace gemel::graph
