// Pipeline: a run of training whose model lies in stages on several ranks, with several copies of the pipeline if wanted, each of which trains
// its shard of every batch.
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

/// Which rank does what: the stages of a copy are ranks that follow each other.
struct PipelinePlace {
  int stages = 1, rank = 0, ranks = 1;

  int copies() const { return ranks / stages; }
  int copy() const { return rank / stages; }
  int stage() const { return rank % stages; }
  int first_rank() const { return copy() * stages; }
  /// The ranks of this stage, in order of the copies.
  std::vector<int> alike() const;
};

/// Of one rank. Its module holds the parameters and statistics of its stage alone, and so does its optimizer.
class Pipeline : public train::Ranks, public train::Stepper {
 public:
  /// Collective, like all that follows.
  /// @param task         its module has no memory yet, or all; both outlive this  @param micro_batch  specs of its tensors
  /// @param plan         but for its first rank and its packing; its micro-batches are those of a batch that does not say, fewer where it has fewer
  ///                     samples
  /// @throws UsageError  ranks that are no multiple of the stages; what PipelineStage refuses
  Pipeline(Session& session, parallel::CommunicationThread& communication, train::Task& task, const Specs& micro_batch, PipelinePlan plan);
  ~Pipeline() override;

  /// Groups for the optimizer of this stage: none where it has nothing to train.
  std::vector<optim::Group> groups(const optim::Grouping& grouping = optim::all_in_one) const;
  /// It updates this stage, as long as steps are made. All copies get the first one's parameters and statistics.
  /// @param reducer  how gradients are summed over the copies
  void attach(optim::Optimizer& optimizer, const parallel::ReducerOptions& reducer = {});

  const PipelinePlace& place() const { return place_; }
  const PipelineStage& stage() const { return *stage_; }
  /// The whole model as files hold it, on rank 0; elsewhere nothing.
  std::vector<nn::StateEntry> whole_state();

  // ---- what a train::Trainer asks for
  using train::Stepper::train;
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
  /// What a step waited for other stages, the pipeline's bubble among it, and for its copies.
  std::optional<double> next_exposed_ms() override;
  /// Messages and buckets on their way since the last call; see StageOptions::keeps_spans.
  std::vector<parallel::Span> take_spans();

 private:
  /// The ranks that hold this stage, where there are several copies. It lives and ends in the communication thread.
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
  std::deque<double> exposed_ms_;                   // of steps that were not asked for yet, but for their sums over the copies
  std::shared_ptr<Alike> alike_;                    // null where there is one copy, or it does not train
  std::optional<parallel::GradientMemory> memory_;  // the same
  std::shared_ptr<parallel::Reducer> reducer_;      // null where there is one copy, or nothing to train
};

}  // namespace gemel::distributed
