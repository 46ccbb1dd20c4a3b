// Data parallel: a run of training that several ranks share. Each holds the whole model and trains its shard of every batch; gradients are
// summed, so that all make the update that one process would make of the whole batch.
#pragma once
#include <deque>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontends/optim/optimizer.h"
#include "frontends/train/checkpoint.h"
#include "frontends/train/ranks.h"
#include "frontends/train/step.h"
#include "parallel/communication_thread.h"
#include "parallel/ddp/reducer.h"
#include "parallel/ddp/replicator.h"

namespace gemel::distributed {

/// Which statistics normalisation keeps where it is not synchronised: rank 0's, as PyTorch's DistributedDataParallel, or the ranks' mean,
/// as TensorFlow's MirroredStrategy.
enum class Buffers { of_rank_0, mean };

/// How the ranks' models stay alike: all make the same update, as DistributedDataParallel and MirroredStrategy; or rank 0 alone updates and
/// is copied before each step, as PyTorch's DataParallel.
enum class Replicas { kept, copied_each_step };

/// Over what batch normalisation takes its statistics: a rank's shard, or the whole batch, to which no shard may be empty then.
enum class NormOver { shard, batch };

struct DataParallelOptions {
  parallel::ReducerOptions reducer{};
  Buffers buffers = Buffers::of_rank_0;
  Replicas replicas = Replicas::kept;
  NormOver norm = NormOver::shard;
};

/// Of one rank. To be made before the parameters are packed; `attach` once the optimizer is there.
class DataParallel : public train::Ranks {
 public:
  /// Collective, like all that follows.
  DataParallel(Session& session, parallel::CommunicationThread& communication, const DataParallelOptions& options = {});
  /// Waits until nothing that was submitted uses the session; where an error ends the run, communication ends with it.
  ~DataParallel() override;

  /// Packs the task's parameters in backward order, their gradients where the ranks of the machine see them.
  /// @throws CommError where the ranks' models differ: a table of ranks
  void pack(train::Task& task, const Specs& inputs);
  /// Of the model that was packed; both must outlive this.
  void attach(nn::Module& module, optim::Optimizer& optimizer);

  int rank() const override { return communication_.rank(); }
  int size() const override { return communication_.size(); }
  void take_parameters() override;
  GradientReady gradient_ready() override { return reducer_->gradient_ready(); }
  void join_gradients(Values& gradients) override { reducer_->join(gradients); }
  bool updates() const override { return options_.replicas == Replicas::kept || rank() == 0; }
  void announce(train::Notice notice) override;
  train::Notice agreed() override;
  train::Sums merge(const train::Sums& sums) override;
  void join_model() override;
  void check_same() override;
  void join_state(nn::Module& module, optim::Optimizer& optimizer, train::RunState& state) override;
  std::optional<double> next_exposed_ms() override;

  parallel::Reducer& reducer() { return *reducer_; }
  /// What sums a bucket, and why: "shared: the ranks of one machine".
  std::string collective();

 private:
  void broadcast(const Value& value);

  Session& session_;
  parallel::CommunicationThread& communication_;
  DataParallelOptions options_;
  parallel::GradientMemory memory_;
  std::shared_ptr<parallel::Reducer> reducer_;
  std::shared_ptr<parallel::Replicator> replicator_;  // null where replicas are kept
  nn::Module* module_ = nullptr;
  int exceptions_ = std::uncaught_exceptions();  // under way when this was made
  std::deque<std::future<train::Notice>> announced_;
};

/// Nanoseconds that rank 0's steady clock is ahead of this rank's: 0 on its machine, elsewhere by messages to and fro. Collective.
std::int64_t clock_lead_ns(parallel::CommunicationThread& communication);

/// What each rank says: [rank]. Collective.
std::vector<std::string> texts_of_ranks(parallel::CommunicationThread& communication, const std::string& mine);

/// What must be the same on every rank: "model", "resnet18".
struct Setting {
  std::string name, value;
};
/// Collective. @throws CommError where ranks differ: a line for each value, with the ranks that have it
void require_same(parallel::CommunicationThread& communication, const std::vector<Setting>& settings);

}  // namespace gemel::distributed
