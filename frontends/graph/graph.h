// Graph: built node by node, in the manner of TensorFlow 1: placeholders, variables, named values and operations, scopes,
// control dependencies, gradients. A Runner then runs what is asked of it. Shapes are static.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/autograd.h"
#include "engine/graph_trace.h"
#include "engine/parameter_set.h"
#include "engine/prune.h"

namespace gemel::graph {

class Graph;

/// Instructions that are run for what they do: an assignment, a training step.
struct Operation {
  const Graph* graph = nullptr;
  std::string name;
  std::vector<int> instructions;
};
/// What can be asked for, or waited for.
using Fetch = std::variant<Value, Operation>;
enum class Trainable { no, yes };

class Graph {
 public:
  explicit Graph(Session& session, std::string name = "graph");
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// While it lives, operators applied in the session add nodes to the graph.
  class Building {
   public:
    explicit Building(Graph& graph);

   private:
    std::optional<GraphTrace::InForce> in_force_;  // none where the graph was in force already
  };
  [[nodiscard]] Building as_default() { return Building(*this); }

  // Names are prefixed by the session's scope: in NameScope(session, "dense"), "w" is "dense.w".
  // @throws UsageError for a name that is taken

  /// A value that every run which needs it must be fed.
  Value placeholder(const Spec& spec, const std::string& name);
  /// A value that never changes. @throws ShapeError another number of elements
  Value constant(const Spec& spec, std::span<const double> numbers);
  /// State that lasts from run to run, in memory of its own.
  /// @param initial  computed, or a value of this graph that needs no placeholder: it is computed at once
  Value variable(const Value& initial, const std::string& name, Trainable trainable = Trainable::yes);
  /// The same value, to be found by its name.
  Value named(const Value& value, const std::string& name);
  /// All that `build` adds, as one operation.
  Operation group(const std::string& name, const std::function<void()>& build);
  /// variable = value, when it is run.
  Operation assign(const Value& variable, const Value& value, const std::string& name);
  /// Gradients of sum(loss); an empty value where none flows. May be asked for again.
  Values gradients(const Value& loss, const Values& variables);

  /// While it lives, all that is added runs after these.
  class ControlDependencies {
   public:
    ControlDependencies(Graph& graph, const std::vector<Fetch>& before);
    ~ControlDependencies() { trace_.run_after(std::move(outer_)); }
    ControlDependencies(const ControlDependencies&) = delete;
    ControlDependencies& operator=(const ControlDependencies&) = delete;

   private:
    GraphTrace& trace_;
    std::vector<int> outer_;
  };
  [[nodiscard]] ControlDependencies control_dependencies(const std::vector<Fetch>& before) { return {*this, before}; }

  /// By name. @throws UsageError where there is none: lists those there are
  Value value(std::string_view name) const;
  const Operation& operation(std::string_view name) const;
  const ParameterSet& variables() const { return variables_; }

  /// All that was added up to now, as it was added.
  const Program& program() const { return trace_.program(); }
  /// What these need, placeholders as inputs, values as outputs: to be saved, or run by an Executor.
  Pruned part(const std::vector<Fetch>& fetches);
  const std::string& name() const { return trace_.name(); }
  Session& session() const { return session_; }
  /// The placeholder, int64 [4], that draws take their state from. A Runner feeds it.
  const Value& random_state() const { return random_state_; }
  GraphTrace& trace() { return trace_; }

 private:
  std::string scoped(const std::string& name) const;
  void claim(const std::string& name, Fetch fetch);
  Session& session_;
  GraphTrace trace_;
  Value random_state_;
  ParameterSet variables_;
  std::map<std::string, Fetch, std::less<>> names_;
};

}  // namespace gemel::graph
