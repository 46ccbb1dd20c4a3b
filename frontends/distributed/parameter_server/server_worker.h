// ServerWorker: a worker of a parameter server. It reads the parameters, computes the gradient of a part of a batch, sends it, and begins again.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "datasets/loading/data_loader.h"
#include "frontends/distributed/parameter_server/served_shard.h"
#include "frontends/distributed/parameter_server/server_links.h"
#include "frontends/distributed/parameter_server/tensor_bytes.h"
#include "frontends/train/ranks.h"
#include "frontends/train/step.h"

namespace gemel::distributed {

class ServerWorker : public train::Ranks, public train::Stepper {
 public:
  /// Packs the task's parameters and connects. Collective.
  /// @param batch  specs of this worker's part of a batch
  ServerWorker(Session& session, train::Task& task, const Specs& batch, const ServerMeans& means, ParameterServerOptions options);
  /// @param optimizer  whose parameters, in its order, have gradients. It updates nothing here
  void attach(const optim::Optimizer& optimizer, const train::StepOptions& step);

  optim::Optimizer& optimizer() { return *optimizer_; }

  /// Computes what server 0 says, until it says that the run is over.
  /// @param training, validation  whose parts it is told to compute; the second may be null
  void work(datasets::DataLoader& training, datasets::DataLoader* validation);

  // ---- ranks of a step
  int rank() const override { return rank_; }
  bool updates() const override { return false; }
  void join_gradients(Values& gradients) override;

  // ---- steps of a benchmark, on a batch of one's own, until server 0 says that they are over
  train::Pending train(const datasets::Batch& batch, double rate, std::int64_t step, std::optional<double> weight = {}) override;
  train::DeviceBatch to_device(const datasets::Batch& batch) override { return step_->to_device(batch); }
  train::Pending train(const train::DeviceBatch& batch, double rate, std::int64_t step, std::optional<double> weight = {}) override;
  train::Pending evaluate(const datasets::Batch& batch) override { return step_->evaluate(batch); }
  void clip_norm(double most) override { clip_norm_ = most; }
  graph::ArenaUse arena() const override { return step_->arena(); }
  std::size_t steps_ahead() const override { return 0; }

 private:
  /// What server 0 says to compute.
  struct Order {
    bool trains = true, reads = true;
    std::int64_t epoch = 0, batch = 0, part = 0, step = 0, number = 0, evaluation = 0;
  };
  /// @param step  computes what server 0 says in such an order
  void repeat(const std::function<train::Pending(const Order&)>& step);
  void ask();
  std::optional<Order> next_order();
  void read_parameters();
  void push(const Order& order, const train::Sums& sums);
  void send(int server, const parallel::ServerMessage& message, std::span<const std::byte> payload = {});
  parallel::ServerDelivery receive(int server, parallel::ServerMessage::Kind kind);
  bool is_seen_by(int server) const { return links_.seen_by.contains(server); }
  PackOptions memory_of_slabs() const;
  parallel::ServerConnection& to(int server) { return *links_.connections.at(server); }

  Session& session_;
  train::Task& task_;
  const int rank_;
  std::shared_ptr<parallel::ServerAlarm> alarm_;
  ParameterServerOptions options_;
  std::unique_ptr<parallel::SharedRegion> region_;
  WorkerMemory memory_;          // over the region; empty: there is none
  bool computes_there_ = false;  // else what lies there is copied
  SlabShards shards_;
  TensorBytes buffers_, constants_;
  ServerLinks links_;
  std::vector<std::byte> outbox_;
  std::vector<std::byte> read_buffers_;  // as they were read
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<train::Step> step_;
  std::optional<double> clip_norm_;
  std::vector<bool> reached_;
  bool has_asked_ = false;
};

}  // namespace gemel::distributed
