// Graph: a graph that is built node by node, as in TensorFlow 1: placeholders, variables, named values and operations, scopes, control dependencies, gradients,
// training. A Runner runs parts of it. Shapes are static, except for one extent, the batch's, which placeholders may leave open.
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

/// Instructions that are run for their effect: an assignment, a training step.
struct Operation {
  const Graph* graph = nullptr;
  std::string name;
  std::vector<int> instructions;
};
/// A value or operation to fetch, or to wait for.
using Fetch = std::variant<Value, Operation>;
enum class Trainable { no, yes };

/// Open extent of a placeholder, known only when it is fed: placeholder(f32({kOpen, 784}), "x"). All open extents are equal.
inline constexpr std::int64_t kOpen = kOpenExtent;

class Graph {
 public:
  explicit Graph(Session& session, std::string name = "graph");
  /// Reads a file of `save`: names, variables, the number of runs, rates and steps of training. A Runner continues where the saved one stopped, and further
  /// nodes and gradients may be added.
  /// @throws DataError naming the file and what is wrong with it
  static std::unique_ptr<Graph> load(Session& session, const std::filesystem::path& path);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// While it lives, operators applied in the session add nodes to the graph.
  class Building {
   public:
    explicit Building(Graph& graph);

   private:
    std::optional<GraphTrace::InForce> in_force_;  // none if the graph was already in force
  };
  [[nodiscard]] Building as_default() { return Building(*this); }

  // Names are prefixed by the session's scope: in NameScope(session, "dense"), "w" becomes "dense.w".
  // @throws UsageError for a name that is taken

  /// Adds a value that must be fed to every run that needs it. One extent may be kOpen.
  Value placeholder(const Spec& spec, const std::string& name);
  /// Adds a value that never changes. Without a name it is called "constant", "constant_1" and so on.
  /// @throws ShapeError if the number of elements is wrong
  Value constant(const Spec& spec, std::span<const double> numbers, const std::string& name = "");
  Value constant(const Spec& spec, std::span<const float> numbers, const std::string& name = "");
  /// Adds state that is kept from run to run, in its own memory.
  /// @param initial  computed, or a value of this graph that needs no placeholder, which is then computed at once
  Value variable(const Value& initial, const std::string& name, Trainable trainable = Trainable::yes);
  /// Makes existing parameters and buffers, such as a module's, variables of the graph under their names. Those that already are variables are not changed.
  void add(const ParameterSet& parameters);
  /// Names a value, so that it can be found by its name.
  Value named(const Value& value, const std::string& name);
  /// Makes one operation of everything that `build` adds.
  Operation group(const std::string& name, const std::function<void()>& build);
  /// Adds the operation variable = value.
  /// @throws UsageError for a placeholder, as it would be written to the fed tensor's memory
  Operation assign(const Value& variable, const Value& value, const std::string& name);
  /// Adds the gradients of sum(loss); an empty value if none flows. They may be requested again, also after an update or an assignment that changes what the
  /// loss was computed from: they are the gradients of the loss before that change, and come before it if both are run.
  /// @throws UsageError if control dependencies order them after the change; for a placeholder, which never wants a gradient
  Values gradients(const Value& loss, const Values& variables);

  /// Adds an operation that minimises the loss: gradients, and the optimizer's update of its parameters, which become variables together with its slots
  /// ("NAME.velocity.w"). Each run of it uses the optimizer's rate and counts one of its steps. The optimizer may be destroyed before the graph.
  /// A parameter that is frozen later is not updated until it is unfrozen. One that is frozen now has no gradient in the graph: after it is unfrozen, running
  /// the operation is refused. Parameters of a group that the optimizer is given later are not updated.
  /// If several such operations run at once, each has the gradients of the losses before all updates, which run in the order of their `minimize`. A loss that
  /// is built after `minimize` sees that update, if it is run.
  /// @throws UsageError if the loss depends on none of the parameters that are not frozen; the graph is then unchanged
  Operation minimize(const Value& loss, optim::Optimizer& optimizer, const std::string& name = "minimize");
  /// The rate, which may be set, and the number of steps of an operation of `minimize`.
  optim::Hyperparameters& hyperparameters(std::string_view operation = "minimize") const;

  /// While it lives, everything that is added runs after `before`.
  class ControlDependencies {
   public:
    ControlDependencies(Graph& graph, const std::vector<Fetch>& before);

   private:
    RunAfter scope_;
  };
  [[nodiscard]] ControlDependencies control_dependencies(const std::vector<Fetch>& before) { return {*this, before}; }

  /// Finds by name.
  /// @throws UsageError if there is no such name, lists the names
  Value value(std::string_view name) const;
  const Operation& operation(std::string_view name) const;
  const ParameterSet& variables() const { return variables_; }

  /// Writes the graph as built so far, with all that is needed to continue: PATH (JSON, one line for each instruction) and the variables beside it
  /// (.safetensors). Waits for the device.
  /// @throws UsageError for custom functions  @throws DataError as save_graph
  void save(const std::filesystem::path& path);
  /// Writes the variables under their names, with the numbers of runs and steps, to a safetensors file.
  void save_variables(const std::filesystem::path& path);
  /// Reads a file of save_variables.
  /// @throws DataError naming every variable that is missing, unknown or of another spec; no variable is then changed
  void restore_variables(const std::filesystem::path& path);
  /// Number of runs so far, of all runners; it keys random draws.
  std::int64_t runs() const { return runs_; }
  void count_run() { ++runs_; }

  /// Everything that was added so far, unchanged.
  const Program& program() const { return trace_.program(); }
  /// Returns the part of the program that the fetches need, with placeholders as inputs and values as outputs: to save it, or to run it by an Executor.
  /// @param given    values that are not computed but are further inputs
  /// @param without  instructions to leave out
  Pruned part(const std::vector<Fetch>& fetches, std::vector<Program::Use> given = {}, std::vector<int> without = {});
  const std::string& name() const { return trace_.name(); }
  Session& session() const { return session_; }
  /// The placeholder, int64 [4], of the random state for draws. A Runner feeds it.
  const Value& random_state() const { return random_state_; }
  /// State of a parameter's gradient in a training operation. none: the loss does not depend on the parameter. frozen: the parameter was frozen.
  enum class Gradient { none, given, frozen };
  /// A training operation's placeholder for hyperparameters, which a Runner feeds.
  struct Training {
    std::size_t input;  // number of the program's input
    std::shared_ptr<optim::Hyperparameters> hyperparameters;
    std::vector<std::string> names;   // [row of the hyperparameters] name of the parameter
    std::vector<Gradient> gradients;  // [row]

    /// Counts a step.
    void count() const;
    /// Hyperparameters of the next step, and the steps so far, for the parameters that the operation was built with; the optimizer may have been given more.
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
