// Ranks: those that a run shares each of its batches with, as the training layer sees them. Here there is one; frontends/distributed joins several.
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

/// What ranks keep for checkpoints beside model and optimizer.
struct RanksState {
  struct Tensor {
    std::string name;
    Spec spec;
    std::vector<std::byte> bytes;
  };
  std::map<std::string, std::string> texts;
  std::vector<Tensor> tensors;
  // Where no rank holds the whole model: parameters and buffers as files have them, the optimizer's slots, and the steps that moved each
  // parameter (none: all steps moved all). For a checkpoint those that rank 0 does not hold; of one that was read all.
  std::vector<Tensor> model, slots;
  std::map<std::string, std::int64_t> parameter_steps;
};

/// What ranks tell each other before a step: added up, it is the same on all of them.
struct Notice {
  double weight = 0;         // of the shard of the step's batch: what summed losses are divided by
  bool interrupted = false;  // by a signal: the step does not begin
  std::optional<Sums> sums;  // of an earlier step
};

class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }

  // ---- a step, in operators: at once, or captured
  /// Before its first forward pass: what follows sees the parameters of the ranks that update theirs.
  virtual void take_parameters() {}
  /// Who is told of each complete gradient of the parameters that are trained. Empty: nobody.
  virtual GradientReady gradient_ready() { return {}; }
  /// [parameter] of the optimizer: whether `join_gradients` takes its gradient as rows (engine/gradients/row_gradient.h); empty: of none.
  virtual std::vector<bool> by_rows() const { return {}; }
  /// Behind it the gradients, in their places, are sums over all ranks. A parameter that another rank used has one too.
  virtual void join_gradients(Values& /*gradients*/) {}
  /// Whether this one makes the update; others have no sums then.
  virtual bool updates() const { return true; }

  // ---- on the host, in the same order on every rank
  /// Before a step is enqueued. @param samples  of this rank's shard
  virtual void step_begins(std::int64_t /*samples*/) {}
  /// Begins an exchange; the step in between goes on.
  virtual void announce(Notice notice) { own_ = std::move(notice); }
  /// The sum of what all ranks announced, once for each call of `announce`.
  virtual Notice agreed() { return std::move(own_); }
  /// Sums of all ranks.
  virtual Sums merge(const Sums& sums) { return sums; }
  /// Gives all ranks the parameters and buffers (running statistics) that one process would have: before they are evaluated or saved.
  virtual void join_model() {}
  /// Before a checkpoint: that all ranks hold the same. @throws CommError naming the rank that drifted, and the tensor
  virtual void check_same() {}
  /// For a checkpoint: of all ranks, on rank 0.
  virtual RanksState state() { return {}; }
  /// Gives all ranks what rank 0 read of a checkpoint: parameters, buffers, the optimizer's state, where the run stands, what ranks kept.
  virtual void join_state(nn::Module& /*module*/, optim::Optimizer& /*optimizer*/, RunState& /*state*/) {}
  /// Milliseconds that the next of the steps joined so far waited for communication, one after the other; none: it needs none.
  virtual std::optional<double> next_exposed_ms() { return std::nullopt; }

 private:
  Notice own_;
};

}  // namespace gemel::train
