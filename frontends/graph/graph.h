// Graph: built node by node, in the manner of TensorFlow 1: placeholders, variables, named values and operations, scopes,
// control dependencies, gradients, training. A Runner then runs what is asked of it. Shapes are static, but for one extent, the batch's,
// that placeholders may leave open.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/files/graph_file.h"
#include "engine/gradients/autograd.h"
#include "engine/graph/capture/graph_trace.h"
#include "engine/graph/cut/prune.h"
#include "engine/parameters/parameter_set.h"
#include "frontends/optim/optimizer.h"

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

/// An extent of a placeholder that is known only when it is fed: placeholder(f32({kOpen, 784}), "x"). All that are open are the same.
inline constexpr std::int64_t kOpen = kOpenExtent;

class Graph {
 public:
  explicit Graph(Session& session, std::string name = "graph");
  /// Reads what `save` wrote: names, variables, the count of runs, rates and steps of training. A Runner goes on where the saved one
  /// stopped, and further nodes and gradients may be added.
  /// @throws DataError naming the file and what is wrong with it
  static std::unique_ptr<Graph> load(Session& session, const std::filesystem::path& path);
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

  /// A value that every run which needs it must be fed. One extent may be kOpen.
  Value placeholder(const Spec& spec, const std::string& name);
  /// A value that never changes; without a name it is called "constant", "constant_1" and so on.
  /// @throws ShapeError another number of elements
  Value constant(const Spec& spec, std::span<const double> numbers, const std::string& name = "");
  Value constant(const Spec& spec, std::span<const float> numbers, const std::string& name = "");
  /// State that lasts from run to run, in memory of its own.
  /// @param initial  computed, or a value of this graph that needs no placeholder: it is computed at once
  Value variable(const Value& initial, const std::string& name, Trainable trainable = Trainable::yes);
  /// Makes parameters and buffers that are there, a module's, variables of the graph under their names. Those that are variables already stay.
  void add(const ParameterSet& parameters);
  /// The same value, to be found by its name.
  Value named(const Value& value, const std::string& name);
  /// All that `build` adds, as one operation.
  Operation group(const std::string& name, const std::function<void()>& build);
  /// variable = value, when it is run. @throws UsageError for a placeholder: it would be written in the memory of what is fed
  Operation assign(const Value& variable, const Value& value, const std::string& name);
  /// Gradients of sum(loss); an empty value where none flows. May be asked for again, also after an update or an assignment that changes what
  /// the loss was computed from: they are those of the loss as it is, and where both are run, they come before that change.
  /// @throws UsageError where control dependencies say that they come after it; for a placeholder, whose gradient nobody wants
  Values gradients(const Value& loss, const Values& variables);

  /// The operation that makes the loss smaller: gradients, and the optimizer's update of its parameters, which become variables as its
  /// slots do ("NAME.velocity.w"). Each run of it takes the optimizer's rate and counts a step of it. The optimizer may go before the graph.
  /// A parameter that is frozen later stays as it is until it is thawed. One that is frozen now has no gradient in the graph: once it is thawed,
  /// running the operation is refused. One of a group that the optimizer is given later stays as it is. Where this throws, the graph is as
  /// before.
  /// Where several such operations are run at once, each has the gradients of the losses as they were before all updates, which come in the
  /// order of their `minimize`; a loss that is built after `minimize` sees that update, where it is run.
  /// @throws UsageError where the loss reaches none of the parameters that are not frozen
  Operation minimize(const Value& loss, optim::Optimizer& optimizer, const std::string& name = "minimize");
  /// Of an operation that `minimize` made: the rate, which may be set, and the steps taken.
  optim::Hyperparameters& hyperparameters(std::string_view operation = "minimize") const;

  /// While it lives, all that is added runs after these.
  class ControlDependencies {
   public:
    ControlDependencies(Graph& graph, const std::vector<Fetch>& before);

   private:
    RunAfter scope_;
  };
  [[nodiscard]] ControlDependencies control_dependencies(const std::vector<Fetch>& before) { return {*this, before}; }

  /// By name. @throws UsageError where there is none: lists those there are
  Value value(std::string_view name) const;
  const Operation& operation(std::string_view name) const;
  const ParameterSet& variables() const { return variables_; }

  /// Writes the graph as far as it was built, with all that it needs to go on: PATH (JSON, one line an instruction) and the variables
  /// beside it (.safetensors). Waits for the device. @throws UsageError for custom functions  @throws DataError as save_graph
  void save(const std::filesystem::path& path);
  /// Writes the variables under their names, with the counts of runs and steps, as a safetensors file.
  void save_variables(const std::filesystem::path& path);
  /// Reads them back. @throws DataError naming every variable that is missing, unknown or of another spec; nothing is written then
  void restore_variables(const std::filesystem::path& path);
  /// Runs of all runners so far: what draws differ by.
  std::int64_t runs() const { return runs_; }
  void count_run() { ++runs_; }

  /// All that was added up to now, as it was added.
  const Program& program() const { return trace_.program(); }
  /// What these need, placeholders as inputs, values as outputs: to be saved, or run by an Executor.
  /// @param given    values that are not computed, but come as further inputs
  /// @param without  instructions that are not run
  Pruned part(const std::vector<Fetch>& fetches, std::vector<Program::Use> given = {}, std::vector<int> without = {});
  const std::string& name() const { return trace_.name(); }
  Session& session() const { return session_; }
  /// The placeholder, int64 [4], that draws take their state from. A Runner feeds it.
  const Value& random_state() const { return random_state_; }
  /// What a training operation has of a parameter's gradient: also none where the parameter was frozen, or where the loss does not depend on it.
  enum class Gradient { none, given, frozen };
  /// The placeholders that take hyperparameters, by the names of their operations. A Runner feeds them.
  struct Training {
    std::size_t input;  // of the program
    std::shared_ptr<optim::Hyperparameters> hyperparameters;
    std::vector<std::string> names;   // [row of the hyperparameters] of the parameter
    std::vector<Gradient> gradients;  // [row]

    /// Counts a step.
    void count() const;
    /// The numbers of the next step, and the steps so far, of the parameters that the operation was built with: the optimizer may have been
    /// given more.
    Value tensor(Session& session) const;
    std::vector<std::int64_t> parameter_steps() const;
  };
  const std::map<std::string, Training, std::less<>>& trainings() const { return trainings_; }
  GraphTrace& trace() { return trace_; }

 private:
  class Loader;
  std::vector<int> after(const std::vector<Fetch>& before);
  std::string scoped(const std::string& name) const;
  void claim(const std::string& name, Fetch fetch);
  std::string described(const Value& value) const;
  Values gradients_as_read(const Value& loss, const Values& variables, Values into = {});
  Operation add_training(const Value& loss, optim::Optimizer& optimizer, const std::string& name);
  Value named_constant(const Value& value, const std::string& name);
  void keep(const std::string& path, const Value& variable);
  std::map<std::string, std::int64_t*> counts();
  Session& session_;
  GraphTrace trace_;
  Value random_state_;
  ParameterSet variables_;
  std::map<std::string, Fetch, std::less<>> names_;
  std::map<std::string, Training, std::less<>> trainings_;
  std::int64_t runs_ = 0;
};

}  // namespace gemel::graph
