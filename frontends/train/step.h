// Step: gradients of a batch, whole or in micro-batches, then hooks, then the update; and a step of evaluation. The same functions serve
// both front ends: the graph one captures them once for each signature of the batch.
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

/// A step's results on their way to the host.
class Pending {
 public:
  /// @param task  counts the outputs, and outlives this  @param what  names the step in errors: "step 3"
  Pending(const Task& task, std::string what) : task_(&task), what_(std::move(what)) {}
  /// Of the batch or one of its micro-batches. @param results  its summed loss, then the task's outputs
  void add(const datasets::Batch& part, const Values& results);
  bool empty() const { return parts_.empty(); }
  /// Waits for this step and for nothing that was enqueued after it.
  /// @throws DataError where a kernel met a label or an index out of range
  Sums get();

 private:
  using Read = std::function<std::vector<double>()>;
  struct Part {
    datasets::Batch batch;
    Read loss;
    std::vector<Read> outputs;
  };
  const Task* task_;
  std::string what_;
  std::vector<Part> parts_;
};

/// A batch whose tensors lie on the device.
struct DeviceBatch {
  Values tensors;        // as the task names them
  datasets::Batch host;  // the same; the bytes are shared
};

struct StepOptions {
  Frontend frontend = Frontend::eager;
  PassNames passes = parse_passes("all");
  std::int64_t accumulate = 1;  // micro-batches of a training step, where the batch does not say; the first ones larger by one sample where it does not divide
  Ranks* ranks = nullptr;       // that a training step is shared with; null: it is this one's alone
};

/// What a forward and a backward pass give.
struct Differentiated {
  Outcome outcome;
  Values gradients;  // one a parameter; empty where none reaches it

  /// The summed loss and what `count` looks at, without history.
  Values results() const;
};

/// The forward and backward pass that every training step begins with, in operators.
/// @param in    the batch's tensors as the task names them, the random state, 1 / the weight of the whole step
/// @param options  where gradients are to be written, who is told of them
Differentiated differentiate(Session& session, Task& task, std::span<const Value> in, const Values& parameters, const GradientOptions& options = {});

/// What a trace of a forward pass tells of a task's trainable parameters.
struct BackwardOutline {
  std::vector<std::size_t> order;  // in which a backward pass completes their gradients, as indices; the reverse of theirs for a model that cannot be traced
  std::vector<std::int64_t> looked_up{};  // as looked_up_rows (engine/gradients/autograd.h) counts them
};
/// @param inputs  specs of a batch's tensors, as the task names them
BackwardOutline backward_outline(Session& session, Task& task, const Specs& inputs);
/// Packs a module's trainable parameters into slabs in an order such as that; to be called before an optimizer packs them.
void pack_parameters(nn::Module& module, std::span<const std::size_t> order, const PackOptions& options = {});
void pack_parameters(Session& session, Task& task, const Specs& inputs);

/// Trains and evaluates on batches: with a model that lies whole in this process, as Step does, or with a stage of it.
class Stepper {
 public:
  Stepper() = default;
  virtual ~Stepper() = default;
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  /// Enqueues a training step.
  /// @param step  from 1: names the random draws  @param weight  of the whole step, all ranks and micro-batches together; none: the task's
  /// of this batch
  virtual Pending train(const datasets::Batch& batch, double rate, std::int64_t step, std::optional<double> weight = {}) = 0;
  /// A batch for several steps: its tensors lie on the device where a step begins there.
  virtual DeviceBatch to_device(const datasets::Batch& batch) { return {{}, batch}; }
  /// The same on such a batch, in one piece. @throws UsageError where a Step has micro-batches
  virtual Pending train(const DeviceBatch& batch, double rate, std::int64_t step, std::optional<double> weight = {}) {
    return train(batch.host, rate, step, weight);
  }
  /// Enqueues a forward pass in evaluation mode. Then each module is in the mode that it was in.
  virtual Pending evaluate(const datasets::Batch& batch) = 0;
  /// Before the first step: all gradients together are scaled to a norm of at most `most`.
  virtual void clip_norm(double most) = 0;
  /// Of the largest plan; 0 for the eager front end.
  virtual graph::ArenaUse arena() const = 0;
  /// Steps that may be enqueued before the results of the oldest are asked for: none where `train` returns when it is done.
  virtual std::size_t steps_ahead() const { return 1; }
};

class Step : public Stepper {
 public:
  /// @param optimizer  null for evaluation only. Task and optimizer must outlive the step
  Step(Session& session, Task& task, optim::Optimizer* optimizer, StepOptions options = {});
  /// Called between the gradients, which are complete and lie in the optimizer's places or are rows (engine/gradients/row_gradient.h), and the update; in
  /// operators, as the graph front end captures them.
  using Hook = std::function<void(Values& gradients)>;
  /// @throws UsageError after a training step, which may have been captured without the hook
  void before_update(Hook hook);

  /// Enqueues the transfers.
  DeviceBatch to_device(const datasets::Batch& batch) override;
  /// It puts the whole module into training mode, also what was in evaluation mode; what is frozen stays frozen.
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
  std::map<std::vector<bool>, std::vector<bool>> reached_;  // [which are frozen] the parameters that micro-batches give a dense gradient
  graph::Compiled whole_, first_, further_, update_, evaluation_;
};

}  // namespace gemel::train
