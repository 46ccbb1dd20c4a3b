// ServedShard: what a server holds: its shard of the parameters, whose updates it makes with the engine's optimizer, as one process would.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "frontends/distributed/parameter_server/slab_shards.h"
#include "frontends/distributed/parameter_server/worker_memory.h"
#include "frontends/optim/optimizer.h"
#include "parallel/parameter_server/server_messages.h"
#include "parallel/parameter_server/worker_cores.h"

namespace gemel::distributed {

/// [parameter of the optimizer] whether a gradient reaches it, 64 to a number.
using ReachedParameters = std::vector<std::int64_t>;
ReachedParameters packed(const std::vector<bool>& reached);
bool reaches(const ReachedParameters& reached, std::size_t parameter);

class ServedShard {
 public:
  /// @param optimizer  of all trained parameters; of its state this server keeps its own part up to date
  /// @param cores  of its machine, on which it computes beside the workers of that machine
  ServedShard(const SlabShards& shards, int server, optim::Optimizer& optimizer, parallel::WorkerCores cores);

  std::int64_t bytes() const { return shards_.bytes(server_); }
  /// Where a worker's gradients are. Where the device can, it reads them there, until the worker is forgotten.
  void see(int worker, const WorkerMemory& memory);
  void forget(int worker) { seen_.erase(worker); }
  /// A gradient, and its part of the step's.
  struct Part {
    int worker;
    SlabShards::Bytes gradient;
    double weight;  // those of a step add up to 1
  };
  /// Makes an update by the weighted sum of gradients, in this order.
  void update(std::span<const Part> parts, const ReachedParameters& reached, double rate);
  /// Waits for the device.
  void read(std::span<std::byte> to, SlabShards::Lies lies = SlabShards::Lies::alone) const { shards_.read(server_, SlabShards::What::parameters, to, lies); }

  /// Parameters and the optimizer's state of a shard, as a message has it. @param server  any, if this optimizer has that part, too
  std::pair<parallel::ServerMessage, std::vector<std::byte>> state(int server) const;
  /// @throws CommError if the message does not fit
  void set_state(int server, const parallel::ServerMessage& message, std::span<const std::byte> payload);
  std::int64_t state_bytes(int server) const;
  /// Counts the step for parameters of other servers.
  void count_others(const ReachedParameters& reached);

 private:
  /// A worker's gradients in its own memory.
  struct Seen {
    const std::byte* first;
    std::vector<Slab> slabs;
  };
  class OfWorker;
  void apply(const ReachedParameters& reached, double rate);
  const SlabShards& shards_;
  int server_;
  optim::Optimizer& optimizer_;
  parallel::WorkerCores cores_;
  std::optional<bool> computes_in_place_;          // in memory of workers
  std::map<int, Seen> seen_;                       // [worker]
  std::vector<std::vector<std::size_t>> numbers_;  // [server] its parameters, by the optimizer's numbers
};

}  // namespace gemel::distributed
