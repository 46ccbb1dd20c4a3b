// Step: a training step - gradients of a batch, at once or in micro-batches, then hooks, then the update - and an evaluation step. Both front ends use the same
// functions; the graph front end captures them once for each signature of the batch.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datasets/loading/batch.h"
#include "engine/core/session.h"
#include "engine/parameters/parameter_slab.h"
#include "frontends/graph/compile.h"
#include "frontends/optim/optimizer.h"
#include "frontends/train/ranks.h"
#include "frontends/train/tasks/task.h"

namespace gemel::train {

enum class Frontend { eager, graph };
/// "eager", "graph"
const char* to_string(Frontend frontend);

/// Results of a step that are being transferred to the host.
class Pending {
 public:
  /// @param task  counts the outputs; must outlive this object  @param what  names the step in errors: "step 3"
  Pending(const Task& task, std::string what) : task_(&task), what_(std::move(what)) {}
  /// Adds the results of the batch or of one of its micro-batches.
  /// @param results  its summed loss, then the task's outputs
  void add(const datasets::Batch& part, const Values& results);
  /// Results that another rank computes. @param sums  waits for them
  explicit Pending(std::function<Sums()> sums) : elsewhere_(std::move(sums)) {}
  bool empty() const { return parts_.empty(); }
  /// Waits for this step, but not for anything enqueued after it.
  /// @throws DataError if a kernel found a label or an index out of range
  Sums get();

 private:
  struct Part {
    datasets::Batch batch;
    std::function<std::vector<std::vector<double>>()> results;  // waits for the loss and the outputs
  };
  const Task* task_ = nullptr;
  std::string what_;
  std::vector<Part> parts_;
  std::function<Sums()> elsewhere_;
};

/// A batch with its tensors on the device.
struct DeviceBatch {
  Values tensors;        // as the task names them
  datasets::Batch host;  // the same batch; its bytes are shared
};

struct StepOptions {
  Frontend frontend = Frontend::eager;
  PassNames passes = parse_passes("all");
  /// Micro-batches of a training step, unless the batch has its own. Where samples do not divide, the first ones have one more.
  std::int64_t accumulate = 1;
  Ranks* ranks = nullptr;  // ranks that share training steps; null: none
};

/// Results of a forward and a backward pass.
struct Differentiated {
  Outcome outcome;
  Values gradients;  // [parameter]; empty if none flows

  /// Returns the summed loss and the outputs for `count`, without history.
  Values results() const;
};

/// Runs the forward and backward pass of a training step, in operators.
/// @param in       the batch's tensors as the task names them, the random state, 1 / the weight of the whole step
/// @param options  where to write gradients, and callbacks
Differentiated differentiate(Session& session, Task& task, std::span<const Value> in, const Values& parameters, const GradientOptions& options = {});

/// Facts about a task's trainable parameters from a capture of its forward pass.
struct BackwardOutline {
  /// Numbers of the parameters in the order in which a backward pass completes their gradients; the reverse order of registration if the model cannot be
  /// captured.
  std::vector<std::size_t> order;
  std::vector<std::int64_t> looked_up{};  // numbers of rows that are looked up, as looked_up_rows (engine/gradients/autograd.h)
};
/// @param inputs  specs of a batch's tensors, as the task names them
BackwardOutline backward_outline(Session& session, Task& task, const Specs& inputs);
/// Packs a module's trainable parameters into slabs in the given order. Call before an optimizer packs them.
void pack_parameters(nn::Module& module, std::span<const std::size_t> order, const PackOptions& options = {});
void pack_parameters(Session& session, Task& task, const Specs& inputs);

/// Trains and evaluates on batches, with a full model in this process (Step) or a stage of one (Pipeline).
class Stepper {
 public:
  Stepper() = default;
  virtual ~Stepper() = default;
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  /// Enqueues a training step.
  /// @param step  from 1, keys random draws  @param weight  of the whole step over ranks and micro-batches; none: the task's for this batch
  virtual Pending train(const datasets::Batch& batch, double rate, std::int64_t step, std::optional<double> weight = {}) = 0;
  /// Prepares a batch for several steps: its tensors are on the device if steps begin there.
  virtual DeviceBatch to_device(const datasets::Batch& batch) { return {{}, batch}; }
  /// Trains on such a batch, in one piece.
  /// @throws UsageError with micro-batches
  virtual Pending train(const DeviceBatch& batch, double rate, std::int64_t step, std::optional<double> weight = {}) {
    return train(batch.host, rate, step, weight);
  }
  /// Enqueues a forward pass in evaluation mode. Modules then return to their own modes.
  virtual Pending evaluate(const datasets::Batch& batch) = 0;
  /// Scales all gradients together to a norm of at most `most`. Call before the first step.
  virtual void clip_norm(double most) = 0;
  /// Arena of the largest plan; 0 in the eager front end.
  virtual graph::ArenaUse arena() const = 0;
  /// Number of steps that may be enqueued before the results of the oldest are read; 0 if `train` returns when the step is done.
  virtual std::size_t steps_ahead() const { return 1; }
};

class Step : public Stepper {
 public:
  /// @param optimizer  null for evaluation only. Task and optimizer must outlive this object
  Step(Session& session, Task& task, optim::Optimizer* optimizer, StepOptions options = {});
  /// Called between gradients and update, in operators, which the graph front end captures. Gradients are complete; they are in the optimizer's places or are
  /// row gradients (engine/gradients/row_gradient.h).
  using Hook = std::function<void(Values& gradients)>;
  /// @throws UsageError after a training step, which may have been captured without the hook
  void before_update(Hook hook);

  /// Enqueues the transfers.
  DeviceBatch to_device(const datasets::Batch& batch) override;
  /// Puts the full module into training mode; what is frozen stays frozen.
  Pending train(const datasets::Batch& batch, double rate, std::int64_t step, std::optional<double> weight = {}) override;
  Pending train(const DeviceBatch& batch, double rate, std::int64_t step, std::optional<double> weight = {}) override;
  Pending evaluate(const DeviceBatch& batch);
  Pending evaluate(const datasets::Batch& batch) override { return evaluate(to_device(batch)); }
  void clip_norm(double most) override;

  graph::ArenaUse arena() const override;

 private:
  using Function = Values (Step::*)(const Values&);
  graph::Compiled compiled(Function function);
  Values run(graph::Compiled& compiled, Function function, const Values& in);
  Values whole_step(const Values& in);
  Values first_part(const Values& in);
  Values further_part(const Values& in);
  Values update(const Values& in);
  Values evaluation(const Values& in);
  Differentiated differentiated(const Values& in, GradientOptions options);
  Values gathered(Differentiated part);
  void apply(Values gradients, const Value& hyper);
  std::vector<bool>& reached();
  std::vector<std::size_t> by_rows() const;
  Values inputs_of(const DeviceBatch& batch, double weight, std::int64_t step);
  void update_from_others(double rate);

  Session& session_;
  Task& task_;
  optim::Optimizer* optimizer_;
  StepOptions options_;
  std::vector<std::string> names_;  // of the task's inputs
  std::vector<Hook> hooks_;
  bool has_trained_ = false;
  std::map<std::vector<bool>, std::vector<bool>> reached_;  // [frozen parameters] parameters that get a dense gradient from micro-batches
  graph::Compiled whole_, first_, further_, update_, evaluation_;
};

}  // namespace gemel::train
