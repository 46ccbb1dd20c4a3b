// ShardServer: a server other than server 0, which says in what order this one makes the same updates of its shard.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "frontends/distributed/parameter_server/served_shard.h"
#include "frontends/distributed/parameter_server/server_links.h"
#include "frontends/train/ranks.h"
#include "frontends/train/step.h"

namespace gemel::distributed {

class ShardServer : public train::Ranks, public train::Stepper {
 public:
  /// Packs the task's parameters and connects. Collective.
  /// @param batch  specs of a worker's part of a batch
  ShardServer(Session& session, train::Task& task, const Specs& batch, const ServerMeans& means, ParameterServerOptions options);
  /// @param optimizer  of all trained parameters; must outlive this object
  void attach(optim::Optimizer& optimizer);

  /// Serves until server 0 says that the run is over.
  void serve();

  int rank() const override { return rank_; }
  train::Pending train(const datasets::Batch& batch, double rate, std::int64_t step, std::optional<double> weight = {}) override;
  train::Pending evaluate(const datasets::Batch&) override {
    return train::Pending([] { return train::Sums(); });
  }
  void clip_norm(double) override {}
  graph::ArenaUse arena() const override { return {}; }
  std::size_t steps_ahead() const override { return 0; }

 private:
  struct Gradient {
    std::int64_t number = 0;  // of its part
    ReachedParameters reached{};
    SlabShards::Bytes bytes{};
    std::vector<std::byte> own{};
  };
  struct Order {
    parallel::ServerMessage message;
    std::vector<std::byte> payload;
  };
  void hear();
  bool carry_out(const parallel::ServerDelivery& order);
  void keep(int worker, const parallel::ServerDelivery& delivery);
  Gradient take(int worker, std::int64_t number);
  void own_gradients_of(int worker);
  void leave(int worker);
  void lose(int worker);
  void tell(const parallel::ServerMessage& message, std::span<const std::byte> payload = {});
  void update(const parallel::ServerMessage& order);
  void send(int worker);
  /// Null where it is not seen.
  const WorkerMemory* memory_of(int worker) const;

  const int rank_;
  std::shared_ptr<parallel::ServerAlarm> alarm_;
  ParameterServerOptions options_;
  SlabShards shards_;
  ServerLinks links_;
  std::optional<parallel::ServerPeers> peers_;
  std::optional<ServedShard> shard_;
  std::map<int, std::deque<Gradient>> gradients_;  // [worker] that no update has used yet
  std::deque<Order> heard_;                        // that came while a worker was waited for
  std::vector<std::byte> outbox_;                  // for a worker whose memory is not seen
  bool has_begun_ = false;
};

}  // namespace gemel::distributed
