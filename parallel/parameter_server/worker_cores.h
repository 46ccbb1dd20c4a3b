// WorkerCores: which processors of its machine each worker has for itself.
#pragma once
#include <map>
#include <vector>

#include "engine/base/resource_limits.h"
#include "parallel/transport/communicator.h"

namespace gemel::parallel {

/// More ranks than processors are not bound by the launcher, since servers sleep between messages. Workers then bind themselves, and a server computes on the
/// processors of the worker that waits for it: elsewhere it would take the core of one that computes, while this worker's is idle.
class WorkerCores {
 public:
  WorkerCores() = default;
  /// None has processors of its own unless the ranks may use all of their machine, and it has one for each worker.
  /// @param servers  the first ranks
  WorkerCores(const Placement& placement, int rank, int servers, const AllowedCores& allowed);

  /// [worker of this machine] ascending
  const std::map<int, std::vector<int>>& processors() const { return processors_; }
  /// Binds this process to the processors of a worker; for a worker of another machine, whose cores here are none, to those of all.
  void move_to(int worker);
  /// Lets this process run on those of all workers.
  void move_to_all();

 private:
  void bind(int place, const std::vector<int>& processors);
  static constexpr int kAll = -1;
  std::map<int, std::vector<int>> processors_;
  std::vector<int> all_;
  int place_ = kAll;  // the worker, or kAll
};

}  // namespace gemel::parallel
