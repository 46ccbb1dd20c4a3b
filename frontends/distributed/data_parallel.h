// DataParallel: training shared by several ranks. Each rank has the full model and trains its shard of every batch. Gradients are summed over ranks, so that
// all ranks make the update that one process would make with the full batch.
#pragma once
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "frontends/distributed/notices.h"
#include "frontends/eager/tensor.h"
#include "frontends/optim/optimizer.h"
#include "frontends/train/checkpoint/checkpoint.h"
#include "frontends/train/ranks.h"
#include "frontends/train/step.h"
#include "parallel/collectives/communication_thread.h"
#include "parallel/ddp/load_balance.h"
#include "parallel/ddp/reducer.h"
#include "parallel/ddp/replicator.h"
#include "parallel/ddp/sync_batch_norm.h"
#include "parallel/horovod/operations.h"

namespace gemel::distributed {

/// Statistics that batch normalisation keeps if it is not synchronised: rank 0's, as PyTorch's DistributedDataParallel, or the mean over ranks, as TensorFlow's
/// MirroredStrategy.
enum class Buffers { of_rank_0, mean };

/// How models of ranks are kept equal. kept: all make the same update, as DistributedDataParallel and MirroredStrategy. copied_each_step: rank 0 alone updates,
/// and its parameters are copied before each step, as in PyTorch's DataParallel.
enum class Replicas { kept, copied_each_step };

/// Samples over which batch normalisation takes its statistics: a rank's shard, or the full batch, for which no shard may be empty.
enum class NormOver { shard, batch };

/// Shares of the batch in proportion to the ranks' measured speed.
struct Balancing {
  std::int64_t batch = 0;                   // samples of all ranks
  parallel::LoadBalancer::Limits limits{};  // with NormOver::batch every rank needs a sample in each micro-batch
  /// Called at each change, on every rank alike, for whoever loads the batches.
  std::function<void(const parallel::LoadBalancer&)> changed;
};

struct DataParallelOptions {
  parallel::ReducerOptions reducer{};
  Buffers buffers = Buffers::of_rank_0;
  Replicas replicas = Replicas::kept;
  NormOver norm = NormOver::shard;
  parallel::horovod::NamedCollectives* horovod =
      nullptr;                         // reduces gradients as named tensors; must outlive this object; null: DistributedDataParallel's buckets
  double prescale = 1, postscale = 1;  // factors of gradients before and after their reduction
  bool rows_travel = true;  // communicate row gradients of tables where that is less, or updates move rows alone; not if ranks may leave the others' steps
  std::optional<Balancing> balance{};  // none: even shares, as the loader has them
};

/// Data parallelism on one rank. Make it before the parameters are packed, and call `attach` when the optimizer exists.
class DataParallel : public train::Ranks {
 public:
  /// Collective, like all functions below.
  DataParallel(Session& session, parallel::CommunicationThread& communication, const DataParallelOptions& options = {});
  /// Waits until submitted work no longer uses the session. If an error ends the run, communication ends with it.
  ~DataParallel() override;

  /// Packs the task's parameters in backward order, with gradients in memory that the ranks of the machine share if possible.
  /// @param inputs  specs of a batch of all ranks, as the task names its tensors
  /// @throws CommError if the ranks' models differ, with a table of ranks
  void pack(train::Task& task, const Specs& inputs);
  /// Packs a module's parameters in the reverse order of registration, for a user's own loop.
  void pack(nn::Module& module);
  /// Sets the packed model and its optimizer, which must both outlive this object. All ranks get rank 0's parameters and buffers.
  void attach(nn::Module& module, optim::Optimizer& optimizer);

  // ---- for a user's own loop in the eager front end: zero_grad, backward, the optimizer's step
  /// Adds the gradients of the mean of the ranks' losses to grad() of the parameters, as PyTorch's DistributedDataParallel.
  /// @param loss  of one element
  /// @throws UsageError if replicas are copied in each step
  void backward(const eager::Tensor& loss);
  /// Stores in grad() the gradients of the sum of all losses divided by the sum of all weights, over ranks and over earlier passes under NoSync. It is exact
  /// for uneven shards and masked samples.
  /// @param loss_sum  undefined on a rank without samples  @param weight  of this rank's samples
  /// @throws UsageError if grad() holds gradients of an earlier step
  void backward(const eager::Tensor& loss_sum, double weight);
  /// Adds the gradients of the sum of the ranks' losses, times a factor.
  /// @param loss  undefined on a rank without a loss
  void backward_sum(const eager::Tensor& loss, double scale = 1);
  /// Call when this rank has run out of data, as PyTorch's join context. Until all ranks have joined, it takes part without samples and with weight 0 in what
  /// the others do in such loops (backward, merge, statistics over the batch); the mean of `backward` is over the ranks that have not joined. Afterwards all
  /// ranks have the parameters, buffers and optimizer state of the rank that joined last. Gradients accumulated under NoSync and not yet summed are lost.
  /// @return the rank that joined last; of several with as many steps the largest
  /// @throws UsageError if Horovod reduces gradients, which has a join of its own  @throws CommError if a rank ended without having joined
  int join();
  /// Suspends communication while it lives: backward accumulates this rank's gradients alone. The first pass after it sums them over the ranks.
  class NoSync {
   public:
    explicit NoSync(DataParallel& ranks) : ranks_(ranks), before_(std::exchange(ranks.syncs_, false)) {}
    ~NoSync() { ranks_.syncs_ = before_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DataParallel& ranks_;
    bool before_;
  };

  // ---- interface for train::Step and train::Trainer
  int rank() const override { return communication_.rank(); }
  int size() const override { return communication_.size(); }
  void step_begins(std::int64_t samples) override;
  void take_parameters() override;
  GradientReady gradient_ready() override { return reducer_->gradient_ready(); }
  std::vector<bool> by_rows() const override { return reducer_->by_rows(); }
  void join_gradients(Values& gradients) override { reducer_->join(gradients); }
  bool updates() const override { return options_.replicas == Replicas::kept || rank() == 0; }
  void announce(train::Notice notice) override;
  train::Notice agreed() override;
  train::Sums merge(const train::Sums& sums) override { return notices_.merge(sums); }
  void join_model() override;
  void check_same() override;
  train::RanksState state() override;
  void join_state(nn::Module& module, optim::Optimizer& optimizer, train::RunState& state) override;
  std::optional<double> next_exposed_ms() override;

  parallel::Reducer& reducer() { return *reducer_; }
  /// Returns the algorithm that reduces buckets, and why: "shared: the ranks of one machine".
  std::string collective();

 private:
  void pack(nn::Module& module, train::BackwardOutline outline);
  std::vector<bool> tables_by_rows() const;
  void synchronise_norm(nn::Module& module);
  void broadcast(const Value& value, int root = 0);
  void broadcast_steps(optim::Hyperparameters& hyper, int root);
  bool holds_gradients() const;
  void reduce_backward(const eager::Tensor& loss, double scale, int divided_by);
  void begin_step() { communication_.at_step(++step_); }
  void check_models(const nn::Module& module);
  void join_ranks_state(const train::RanksState& of_rank_0);
  void collect_times();
  bool keeps_residuals() const { return options_.reducer.compression.kind == parallel::CompressionOptions::Kind::top_k; }

  Session& session_;
  parallel::CommunicationThread& communication_;
  DataParallelOptions options_;
  parallel::GradientMemory memory_;
  std::shared_ptr<parallel::Reducer> reducer_;
  std::shared_ptr<parallel::MomentsOverRanks> moments_;  // null if each shard is normalised by itself
  std::shared_ptr<parallel::Replicator> replicator_;     // null if replicas are kept
  nn::Module* module_ = nullptr;
  optim::Optimizer* optimizer_ = nullptr;
  std::unordered_set<const Node*> travel_as_rows_;         // tables of which all ranks look up fewer rows than they have
  std::unordered_map<const Node*, std::size_t> index_of_;  // of a parameter's leaf, by the optimizer's numbers
  bool syncs_ = true;
  std::int64_t step_ = 0;                        // the current one
  std::optional<double> unsummed_weight_;        // of passes under NoSync; none: they had none
  int exceptions_ = std::uncaught_exceptions();  // uncaught exceptions when this was made
  Notices notices_;
  struct Begun {
    std::int64_t samples;
    std::chrono::steady_clock::time_point time;
  };
  std::deque<Begun> begun_;                         // steps whose times are not known yet
  std::chrono::steady_clock::time_point summed_{};  // end of the last step before those
  std::deque<double> exposed_ms_;
  parallel::LoadBalancer::Seen seen_;  // measurements of the last step whose times are known and not announced yet
  std::optional<parallel::LoadBalancer> balance_;
};

/// Gathers a text of each rank: [rank]. Collective.
std::vector<std::string> texts_of_ranks(parallel::CommunicationThread& communication, const std::string& mine);

/// A setting that must be the same on every rank: "model", "resnet18".
struct Setting {
  std::string name, value;
};
/// Checks that all ranks have the same settings. Collective.
/// @throws CommError if they differ: a line for each value, with the ranks that have it
void require_same(parallel::CommunicationThread& communication, const std::vector<Setting>& settings);

/// Returns the parameters and buffers.
std::vector<NamedValue> all_of(const ParameterSet& set);
/// Checks by checksums that ranks hold the same values. Collective among them.
/// @param ranks  their numbers  @param among  group of them, made in the communication thread; null: all ranks of the job
/// @throws CommError naming the first tensor that differs and the rank that has it
void require_same_contents(parallel::CommunicationThread& communication, const std::vector<NamedValue>& values, const std::vector<int>& ranks,
                           parallel::Collectives* among = nullptr);

}  // namespace gemel::distributed
