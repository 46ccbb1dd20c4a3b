// What one rank holds of a model, and how it trains, evaluates and infers with it. `Strategy::model` makes it; then `build`, and to train `attach`.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "datasets/loading/data_loader.h"
#include "frontends/cli/options/parallel_options.h"
#include "frontends/cli/options/run_spec.h"
#include "frontends/graph/compile.h"
#include "frontends/nn/state/state_dict.h"
#include "frontends/optim/optimizer.h"
#include "frontends/train/ranks.h"
#include "frontends/train/step.h"
#include "parallel/communication_span.h"

namespace gemel::cli {

class RankModel {
 public:
  RankModel() = default;
  virtual ~RankModel() = default;
  RankModel(const RankModel&) = delete;
  RankModel& operator=(const RankModel&) = delete;

  /// Gives this rank's part memory and values, and packs what is trained. Collective.
  /// @param load  reads a file of weights into the extent of the module that it is told; empty: there is none
  virtual void build(const std::function<void(nn::Extent)>& load) = 0;
  /// For the optimizer of this part.
  virtual std::vector<optim::Group> groups(const optim::Grouping& grouping) const = 0;
  /// It updates this part. Collective.
  virtual void attach(std::unique_ptr<optim::Optimizer> optimizer) = 0;
  virtual optim::Optimizer& optimizer() = 0;

  virtual train::Ranks& ranks() = 0;
  /// From `attach` on; to evaluate from `build` on.
  virtual train::Stepper& stepper() = 0;
  /// To infer: a forward pass over this rank's shard, to be enqueued again and again. Where it begins the tensors lie on the device before.
  /// @return the outputs, on the rank that has them
  virtual std::function<Values()> inference(const datasets::Batch& shard) = 0;
  /// Of the largest plan; 0 for the eager front end.
  virtual graph::ArenaUse arena() const = 0;
  /// What was communicated since the last call; see ModelUse::keeps_spans.
  virtual std::vector<parallel::Span> take_spans() { return {}; }
  /// The whole model as files hold it, on rank 0; elsewhere nothing. Collective.
  virtual std::vector<nn::StateEntry> whole_state() = 0;

  /// What the trainer of this rank goes through, in place of the batches that the rank loads.
  virtual datasets::BatchSource& batches(datasets::DataLoader& loader, Purpose /*train, evaluate*/) { return loader; }
  /// Where another rank's trainer makes the steps: this rank's work for it, until the run is over.
  using Help = std::function<void(datasets::DataLoader& training, datasets::DataLoader* validation)>;
  virtual Help help() { return {}; }
  /// Whether rank 0 alone makes the steps that are measured. On others one step of training is the work for all of them, until `end` of rank 0.
  virtual bool is_helped() const { return false; }

  /// What the log says of this rank besides its device.
  virtual Json about_rank() const { return Json::object(); }
  /// Says what the ranks share, and how. Collective. @return what the log says of it
  virtual Json tell_ranks() { return Json::object(); }
  /// Ends what goes on between steps, where an error that it meets is told. Collective.
  virtual void end() {}
};

}  // namespace gemel::cli
