// Data parallel: a run of training that several ranks share. Each holds the whole model and trains its shard of every batch; gradients are
// summed, so that all make the update that one process would make of the whole batch.
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

/// Which statistics normalisation keeps where it is not synchronised: rank 0's, as PyTorch's DistributedDataParallel, or the ranks' mean,
/// as TensorFlow's MirroredStrategy.
enum class Buffers { of_rank_0, mean };

/// How the ranks' models stay alike: all make the same update, as DistributedDataParallel and MirroredStrategy; or rank 0 alone updates and
/// is copied before each step, as PyTorch's DataParallel.
enum class Replicas { kept, copied_each_step };

/// Over what batch normalisation takes its statistics: a rank's shard, or the whole batch, to which no shard may be empty then.
enum class NormOver { shard, batch };

/// Shares of the batch by the rates that ranks are seen to have. Who loads the batches is told of each change, on every rank alike.
struct Balancing {
  std::int64_t batch = 0;              // samples of all ranks
  parallel::Balance::Limits limits{};  // with NormOver::batch every rank needs a sample in each micro-batch
  std::function<void(const parallel::Balance&)> changed;
};

struct DataParallelOptions {
  parallel::ReducerOptions reducer{};
  Buffers buffers = Buffers::of_rank_0;
  Replicas replicas = Replicas::kept;
  NormOver norm = NormOver::shard;
  parallel::horovod::Horovod* horovod = nullptr;  // gradients are its named tensors, and it outlives this; null: DistributedDataParallel's buckets
  double prescale = 1, postscale = 1;             // factors of gradients before and behind its reduction
  bool rows_travel = true;                        // of tables, where they are less or updates move them alone; not where ranks may leave the others' steps
  std::optional<Balancing> balance{};             // none: even shares, as the loader has them
};

/// Of one rank. To be made before the parameters are packed; `attach` once the optimizer is there.
class DataParallel : public train::Ranks {
 public:
  /// Collective, like all that follows.
  DataParallel(Session& session, parallel::CommunicationThread& communication, const DataParallelOptions& options = {});
  /// Waits until nothing that was submitted uses the session; where an error ends the run, communication ends with it.
  ~DataParallel() override;

  /// Packs the task's parameters in backward order, their gradients where the ranks of the machine see them.
  /// @param inputs  specs of a batch of all ranks together, as the task names them
  /// @throws CommError where the ranks' models differ: a table of ranks
  void pack(train::Task& task, const Specs& inputs);
  /// The same in the reverse order of registration, for a loop of the user's own.
  void pack(nn::Module& module);
  /// Of the model that was packed; both must outlive this. All ranks get rank 0's parameters and buffers.
  void attach(nn::Module& module, optim::Optimizer& optimizer);

  // ---- in a user's own loop of the eager front end: zero_grad, backward, the optimizer's step
  /// Adds the gradients of the mean of the ranks' losses to grad() of the parameters, as PyTorch's DistributedDataParallel. @param loss  of one element
  /// @throws UsageError where replicas are copied in each step
  void backward(const eager::Tensor& loss);
  /// Puts into grad() the gradients of the sum of all losses divided by the sum of all weights, over ranks and the passes under NoSync before:
  /// exact for uneven shards and masked samples.
  /// @param loss_sum  undefined on a rank that has no samples  @param weight  of this rank's samples
  /// @throws UsageError where grad() holds gradients of an earlier step
  void backward(const eager::Tensor& loss_sum, double weight);
  /// Adds the gradients of the sum of the ranks' losses, times a factor. @param loss  undefined on a rank that has none
  void backward_sum(const eager::Tensor& loss, double scale = 1);
  /// This rank has run out of data, as PyTorch's join context: until all ranks have joined it takes part in all that they do in such loops (backward, merge,
  /// statistics over the batch) without samples and with weight 0, and the mean of `backward` is over the ranks that have not joined. Behind it all ranks have
  /// the parameters, buffers and the optimizer's state of the one that joined last. Gradients that a rank has added up under NoSync and not summed are lost.
  /// @return the rank that joined last; of several that had as many steps the one with the largest number
  /// @throws UsageError where Horovod carries gradients, which has a join of its own  @throws CommError where a rank ended without having joined
  int join();
  /// As long as it lives backward adds up this rank's gradients alone; the first pass behind it sums them over the ranks.
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

  // ---- what a train::Step and a train::Trainer ask for
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
  /// What sums a bucket, and why: "shared: the ranks of one machine".
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
  std::shared_ptr<parallel::MomentsOverRanks> moments_;  // null where a shard is normalised by itself
  std::shared_ptr<parallel::Replicator> replicator_;     // null where replicas are kept
  nn::Module* module_ = nullptr;
  optim::Optimizer* optimizer_ = nullptr;
  std::unordered_set<const Node*> travel_as_rows_;         // tables of which all ranks look up less than they have
  std::unordered_map<const Node*, std::size_t> index_of_;  // of a parameter's leaf, as the optimizer numbers them
  bool syncs_ = true;
  std::int64_t step_ = 0;                        // under way
  std::optional<double> unsummed_weight_;        // of passes under NoSync; none: they had none
  int exceptions_ = std::uncaught_exceptions();  // under way when this was made
  Notices notices_;
  struct Begun {
    std::int64_t samples;
    std::chrono::steady_clock::time_point time;
  };
  std::deque<Begun> begun_;                         // steps whose times are not known yet
  std::chrono::steady_clock::time_point summed_{};  // the last of those before
  std::deque<double> exposed_ms_;
  parallel::Balance::Seen seen_;  // in the last step whose times are known and not told yet
  std::optional<parallel::Balance> balance_;
};

/// What each rank says: [rank]. Collective.
std::vector<std::string> texts_of_ranks(parallel::CommunicationThread& communication, const std::string& mine);

/// What must be the same on every rank: "model", "resnet18".
struct Setting {
  std::string name, value;
};
/// Collective. @throws CommError where ranks differ: a line for each value, with the ranks that have it
void require_same(parallel::CommunicationThread& communication, const std::vector<Setting>& settings);

/// Parameters and buffers.
std::vector<NamedValue> all_of(const ParameterSet& set);
/// That ranks hold the same, compared by checksums. Collective among them.
/// @param ranks  their numbers  @param among  of them, made in the communication thread; null: all of the job
/// @throws CommError naming the first tensor that differs and the rank that has it
void require_same_contents(parallel::CommunicationThread& communication, const std::vector<NamedValue>& values, const std::vector<int>& ranks,
                           parallel::Collectives* among = nullptr);

}  // namespace gemel::distributed
