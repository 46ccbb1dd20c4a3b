// Ranks: the training layer's interface to the ranks that share each batch. This class is for a single one; frontends/distributed joins several.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/gradients/autograd.h"
#include "frontends/train/tasks/task.h"

namespace gemel::nn {
class Module;
}
namespace gemel::optim {
class Optimizer;
}

namespace gemel::train {

struct RunState;

/// State that ranks save in checkpoints besides model and optimizer.
struct RanksState {
  struct Tensor {
    std::string name;
    Spec spec;
    std::vector<std::byte> bytes;
  };
  std::map<std::string, std::string> texts;
  std::vector<Tensor> tensors;
  // For models in stages: parameters and buffers in the layout of files, the optimizer's slots, and the number of steps that updated each parameter (empty:
  // all). In a checkpoint to write those that rank 0 does not hold; after reading one, all.
  std::vector<Tensor> model, slots;
  std::map<std::string, std::int64_t> parameter_steps;
};

/// Message that ranks exchange before a step. Notices are added up, so that the result is the same on all ranks.
struct Notice {
  double weight = 0;         // of the shard of the step's batch: divisor of summed losses
  bool interrupted = false;  // by a signal: the step does not begin
  std::optional<Sums> sums;  // of an earlier step
};

/// Age of the gradients of a step that was computed from parameters of the past.
struct Staleness {
  std::int64_t updates = 0;       // between the read of the parameters and the step's own update
  std::int64_t steps_behind = 0;  // at the read: own steps by which the slowest worker was behind
};

class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }

  // ---- in a step, in operators: computed at once, or captured
  /// Before the first forward pass: copies parameters from the ranks that update them.
  virtual void take_parameters() {}
  /// Callback for complete gradients of trained parameters; empty: none.
  virtual GradientReady gradient_ready() { return {}; }
  /// [parameter] of the optimizer: true if `join_gradients` takes a row gradient (engine/gradients/row_gradient.h); empty: none.
  virtual std::vector<bool> by_rows() const { return {}; }
  /// Makes the gradients, in their places, sums over all ranks. A parameter that only another rank used gets a gradient too.
  virtual void join_gradients(Values& /*gradients*/) {}
  /// Tells if this rank makes the update; others have no sums.
  virtual bool updates() const { return true; }

  // ---- on the host, in the same order on every rank
  /// Divisor of the summed loss of this rank's shard.
  virtual double weight(const Task& task, const datasets::Batch& batch) const { return task.weight(batch); }
  /// Called before a step is enqueued.
  /// @param samples  of this rank's shard
  virtual void step_begins(std::int64_t /*samples*/) {}
  /// Starts an exchange of notices, which overlaps with the step.
  virtual void announce(Notice notice) { own_ = std::move(notice); }
  /// Returns the sum of all ranks' notices, once for each call of `announce`.
  virtual Notice agreed() { return std::move(own_); }
  /// Sums over ranks.
  virtual Sums merge(const Sums& sums) { return sums; }
  /// Gives all ranks the parameters and buffers (running statistics) that one process would have, for evaluation or a checkpoint.
  virtual void join_model() {}
  /// Checks before a checkpoint that all ranks hold the same values.
  /// @throws CommError naming the rank and the tensor that differ
  virtual void check_same() {}
  /// Returns the state of all ranks for a checkpoint, on rank 0.
  virtual RanksState state() { return {}; }
  /// Returns the number of parts of a batch that ranks train in any order, so that a checkpoint may lack some (checkpoint/missing_parts.h); 0: whole batches.
  virtual std::int64_t parts_of_batch() const { return 0; }
  /// Gives all ranks what rank 0 read from a checkpoint: parameters, buffers, the optimizer's state, progress of the run, state of ranks.
  virtual void join_state(nn::Module& /*module*/, optim::Optimizer& /*optimizer*/, RunState& /*state*/) {}
  /// Returns the milliseconds that a step waited for communication, for each step so far, once; none: there are no more.
  virtual std::optional<double> next_exposed_ms() { return std::nullopt; }
  /// Returns the age of the gradients of each step so far, once; none: they are those of the newest parameters by design.
  virtual std::optional<Staleness> next_staleness() { return std::nullopt; }

 private:
  Notice own_;
};

}  // namespace gemel::train
