// Pipeline: training of a model whose stages are on several ranks. There may be several copies of the pipeline, each of which trains its shard of every batch.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontends/distributed/notices.h"
#include "frontends/distributed/pipeline/stage.h"
#include "frontends/nn/state/state_dict.h"
#include "frontends/optim/optimizer.h"
#include "frontends/train/ranks.h"
#include "frontends/train/step.h"
#include "parallel/collectives/communication_thread.h"
#include "parallel/ddp/gradient_memory.h"
#include "parallel/ddp/reducer.h"

namespace gemel::distributed {

/// The stage and the copy of each rank: the stages of a copy are consecutive ranks.
struct PipelinePlace {
  int stages = 1, rank = 0, ranks = 1;

  int copies() const { return ranks / stages; }
  int copy() const { return rank / stages; }
  int stage() const { return rank % stages; }
  int first_rank() const { return copy() * stages; }
  /// Ranks with this stage, in the order of copies.
  std::vector<int> alike() const;
};

/// A pipeline on one rank. Its module and its optimizer hold the parameters and statistics of its stage alone.
class Pipeline : public train::Ranks, public train::Stepper {
 public:
  /// Collective, like all functions below.
  /// @param task         its module is not materialised, or fully; task and module must outlive this object  @param micro_batch  specs of its tensors
  /// @param plan without first_rank and packing. Its number of micro-batches is for batches that do not have one, and smaller for batches with fewer samples
  /// @throws UsageError  if the number of ranks is not a multiple of the stages; as PipelineStage
  Pipeline(Session& session, parallel::CommunicationThread& communication, train::Task& task, const Specs& micro_batch, PipelinePlan plan);
  ~Pipeline() override;

  /// Returns parameter groups for this stage's optimizer; none if it has nothing to train.
  std::vector<optim::Group> groups(const optim::Grouping& grouping = optim::all_in_one) const;
  /// Sets the optimizer of this stage, which must live as long as steps are made. All copies get the first one's parameters and statistics.
  /// @param reducer  options of the reduction of gradients over copies
  void attach(optim::Optimizer& optimizer, const parallel::ReducerOptions& reducer = {});

  const PipelinePlace& place() const { return place_; }
  const PipelineStage& stage() const { return *stage_; }
  /// Returns the full model in the layout of files, on rank 0; nothing on other ranks. Collective.
  std::vector<nn::StateEntry> whole_state();

  // ---- interface for train::Trainer
  train::Pending train(const datasets::Batch& batch, double rate, std::int64_t step, std::optional<double> weight = {}) override;
  train::Pending evaluate(const datasets::Batch& batch) override;
  void clip_norm(double most) override { largest_norm_ = most; }
  graph::ArenaUse arena() const override { return stage_->arena(); }
  std::size_t steps_ahead() const override { return 0; }

  int rank() const override { return place_.rank; }
  int size() const override { return place_.ranks; }
  void announce(train::Notice notice) override;
  train::Notice agreed() override { return notices_.agreed().all; }
  train::Sums merge(const train::Sums& sums) override { return notices_.merge(sums); }
  void join_model() override;
  void check_same() override;
  train::RanksState state() override;
  void join_state(nn::Module& module, optim::Optimizer& optimizer, train::RunState& state) override;
  /// Milliseconds that a step waited for other stages, with the pipeline's bubble, and for its copies.
  std::optional<double> next_exposed_ms() override;
  /// Returns spans of messages and buckets since the last call; see StageOptions::keeps_spans.
  std::vector<parallel::Span> take_spans();

 private:
  /// The group of ranks with this stage, if there are several copies. It is made and destroyed in the communication thread.
  struct Alike {
    std::unique_ptr<parallel::Communicator> ranks;
    std::unique_ptr<parallel::Collectives> collectives;
  };
  PackOptions pack_options();
  std::vector<datasets::Batch> micro_batches_of(const datasets::Batch& batch) const;
  void take_from_first_copy(std::span<const NamedValue> values);
  double update(Values gradients, double rate);
  double clip(Values& gradients);
  train::RanksState mine() const;

  Session& session_;
  parallel::CommunicationThread& communication_;
  train::Task& task_;
  PipelinePlace place_;
  std::int64_t micro_batches_;
  std::unique_ptr<PipelineStage> stage_;
  optim::Optimizer* optimizer_ = nullptr;
  double largest_norm_ = 0;  // 0: no limit
  Notices notices_;
  std::deque<double> exposed_ms_;                   // of steps not returned yet, without the reduction over copies
  std::shared_ptr<Alike> alike_;                    // null if there is one copy, or no training
  std::optional<parallel::GradientMemory> memory_;  // as alike_
  std::shared_ptr<parallel::Reducer> reducer_;      // null if there is one copy, or nothing to train
};

}  // namespace gemel::distributed
