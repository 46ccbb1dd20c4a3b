// Runner: runs the requested part of a graph, as TensorFlow 1's Session.
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

/// A value of the graph, usually a placeholder, and the tensor that it is fed.
using Feed = std::pair<Value, Value>;

/// Prunes, optimises and plans each set of fetches once for each open extent, when it is first requested. The graph must outlive its runners.
class Runner {
 public:
  /// @param most_plans  largest number of plans, at least 1; the least recently used one is dropped for a new one
  explicit Runner(Graph& graph, PassNames passes = parse_passes("all"), std::size_t most_plans = 64);

  /// Runs what the fetches and their control dependencies need, and nothing else: a variable changes only if an operation that changes it is fetched. Random
  /// draws differ in each run: the random state is (seed, number of the run) unless it is fed.
  /// @param feeds    at least what the fetches need. Any value may be fed; it is then not computed, or for a variable not read
  /// @param fetches  values and operations
  /// @return one value for each fetch, in its own memory; an empty value for an operation
  /// @throws UsageError for a placeholder that is needed and not fed, a feed or a fetch of another graph, or a parameter that was unfrozen after `minimize`
  /// @throws ShapeError for a feed of another spec, or feeds with different open extents
  Values run(const std::vector<Feed>& feeds, const std::vector<Fetch>& fetches);

  /// A planned set of fetches.
  struct Plan {
    std::unique_ptr<Executor> executor;
    std::vector<std::size_t> inputs;  // numbers of the graph's inputs
    std::size_t placeholders = 0;     // number of the graph's inputs when it was planned; other fed values are numbered from here
    std::vector<PassReport> passes;
    std::uint64_t last_used = 0;
  };
  const std::map<std::string, Plan>& plans() const { return plans_; }

 private:
  /// Feeds, resolved in the graph.
  struct Fed {
    std::map<std::size_t, Value> placeholders;  // by the number of the input
    std::vector<Program::Use> uses;             // of other values
    Values values;                              // for `uses`
    std::optional<std::int64_t> extent;         // open extent
  };
  Fed looked_up(const std::vector<Feed>& feeds) const;
  void check_feed(const Program::Use& use, const std::string& what, const Value& value, Fed& fed) const;
  void check_inputs(const Plan& plan, const Fed& fed) const;
  Plan& plan_for(const std::vector<Fetch>& fetches, const Fed& fed);
  /// Returns the training operation whose hyperparameters are this input, with its name; null if there is none.
  const std::pair<const std::string, Graph::Training>* training_for(std::size_t input) const;
  Value input(std::size_t input, const Plan& plan, const Fed& fed) const;
  Graph& graph_;
  PassNames passes_;
  std::size_t most_plans_;
  std::map<std::string, Plan> plans_;
  std::uint64_t uses_ = 0;
};

}  // namespace gemel::graph
