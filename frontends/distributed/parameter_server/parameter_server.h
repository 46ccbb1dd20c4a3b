// ParameterServer: server 0. To a trainer it is the whole run: a step is an update by what workers compute, in the order that Staleness allows.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "datasets/loading/data_loader.h"
#include "frontends/distributed/parameter_server/run_outlines.h"
#include "frontends/distributed/parameter_server/served_shard.h"
#include "frontends/distributed/parameter_server/server_links.h"
#include "frontends/distributed/parameter_server/tensor_bytes.h"
#include "frontends/train/checkpoint/checkpoint.h"
#include "frontends/train/ranks.h"
#include "frontends/train/step.h"
#include "parallel/parameter_server/free_batches.h"
#include "parallel/parameter_server/staleness.h"

namespace gemel::distributed {

class ParameterServer : public train::Ranks, public train::Stepper {
 public:
  /// Packs the task's parameters and connects. Collective.
  /// @param batch  specs of a worker's part of a batch
  ParameterServer(Session& session, train::Task& task, const Specs& batch, const ServerMeans& means, ParameterServerOptions options);
  /// @param optimizer  of all trained parameters; must outlive this object
  void attach(optim::Optimizer& optimizer);

  /// What a trainer goes through in place of the batches of a loader: the steps of an epoch, without their samples.
  datasets::BatchSource& steps_of(const datasets::DataLoader& loader);
  datasets::BatchSource& evaluations_of(const datasets::DataLoader& loader);
  /// Gives this rank the other servers' shards and the optimizer's state of them.
  void gather();
  /// Tells all that the run is over.
  void end();

  // ---- ranks of a trainer
  double weight(const train::Task&, const datasets::Batch& batch) const override { return static_cast<double>(batch.samples); }
  train::RanksState state() override;
  std::int64_t parts_of_batch() const override { return options_.parts(); }
  void join_state(nn::Module& module, optim::Optimizer& optimizer, train::RunState& state) override;
  std::optional<train::Staleness> next_staleness() override;

  // ---- steps of a trainer, or of a benchmark
  /// Returns when the update is made.
  train::Pending train(const datasets::Batch& batch, double rate, std::int64_t step, std::optional<double> weight = {}) override;
  train::Pending evaluate(const datasets::Batch& batch) override;
  /// Workers clip their gradients.
  void clip_norm(double) override {}
  graph::ArenaUse arena() const override { return {}; }
  std::size_t steps_ahead() const override { return 0; }

 private:
  enum class Doing { starts, waits, trains, has_trained, evaluates };
  struct Worker {
    Doing doing = Doing::starts;
    bool is_late = false;                    // its gradient is not waited for
    std::optional<std::int64_t> number{};    // of the part that it computes
    std::optional<std::int64_t> has_read{};  // version of the parameters that it has
    std::vector<std::byte> read_statistics{};
    std::int64_t statistics_version = 0;  // of those
  };
  /// A gradient that no update has used yet.
  struct Gradient {
    int worker = 0;
    std::int64_t number = 0;
    ReachedParameters reached{};
    train::Sums sums{};
    SlabShards::Bytes bytes{};                // in the connection's or the worker's memory, or in `own`
    std::span<const std::byte> statistics{};  // in the connection's memory, or in `own_statistics`
    std::vector<std::byte> own{}, own_statistics{}, read_statistics{};
    std::int64_t statistics_version = 0;
  };
  void begin();
  void handle(const parallel::ServerPeers::Event& event);
  void take_gradient(int rank, const parallel::ServerDelivery& delivery);
  void take_result(int rank, const parallel::ServerDelivery& delivery);
  void lose(int rank, const std::string& why);
  /// Goes on without a worker that is gone.
  void send(int rank, const parallel::ServerMessage& message, std::span<const std::byte> payload = {});
  void tell_servers(const parallel::ServerMessage& message);
  void send_order(int rank, Doing what, std::int64_t number);
  void send_parameters(int rank);
  /// Null where it is not seen.
  const WorkerMemory* memory_of(int worker) const;
  void grant_training();
  void grant_evaluation();
  std::int64_t under_way() const;
  std::int64_t needed() const;
  bool may_hand_out() const;
  std::vector<int> waiting() const;
  void keep_gradients_of(int worker);
  void recall();
  train::Sums next_update(double rate);
  train::Sums update(std::vector<Gradient> gradients, double rate);
  void update_statistics(const std::vector<Gradient>& gradients, std::span<const double> weights);
  void leave_late_ones();
  void drop(int worker, std::int64_t number);
  void begin_epoch(std::int64_t epoch, std::int64_t first_step);
  void begin_evaluation();

  std::shared_ptr<parallel::ServerAlarm> alarm_;
  ParameterServerOptions options_;
  SlabShards shards_;
  TensorBytes buffers_, constants_;
  ServerLinks links_;
  std::optional<parallel::ServerPeers> peers_;
  std::optional<ServedShard> shard_;
  parallel::Staleness staleness_;
  std::map<int, Worker> workers_;
  std::deque<Gradient> gradients_;     // in the order in which they came
  std::vector<std::byte> statistics_;  // running statistics
  std::int64_t statistics_version_ = 0;
  std::vector<std::byte> outbox_;
  bool has_begun_ = false, may_lose_ = false;

  std::unique_ptr<OutlinedBatches> steps_, evaluations_;
  std::optional<parallel::FreeBatches> parts_;  // of training; none: a benchmark
  std::vector<std::int64_t> missing_;           // of a checkpoint, until its epoch begins
  std::int64_t epoch_ = 0, step_ = 0;
  std::int64_t left_ = 0;    // gradients that the epoch's updates, or the benchmark's step, still take
  std::int64_t handed_ = 0;  // in a benchmark: numbers of its parts
  std::deque<train::Staleness> ages_;

  std::int64_t evaluation_ = 0;  // counts them: results of one that was cut short may still come
  std::optional<parallel::FreeBatches> evaluated_;
  std::map<std::int64_t, train::Sums> results_;
};

}  // namespace gemel::distributed
