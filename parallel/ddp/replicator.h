// Replicator: before each step every rank gets the parameters of rank 0, which alone updates them, as in PyTorch's DataParallel.
#pragma once
#include <memory>
#include <vector>

#include "engine/core/attributes.h"
#include "engine/parameters/parameter_set.h"
#include "parallel/collectives/communication_thread.h"
#include "parallel/ddp/reducer.h"

namespace gemel::parallel {

class Replicator : public State, public std::enable_shared_from_this<Replicator> {
 public:
  /// @param parameters  in slabs  @param reducer  is told of the time that broadcasts take
  Replicator(Session& session, CommunicationThread& communication, const std::vector<NamedValue>& parameters, std::shared_ptr<Reducer> reducer);

  /// Broadcasts rank 0's parameters, in operators, on every rank. What follows uses them.
  void replicate();
  /// Broadcasts the parameters of a slab after all that the session has computed and before what it computes next.
  void broadcast(std::size_t slab);

 private:
  Session& session_;
  CommunicationThread& communication_;
  std::vector<std::shared_ptr<ParameterSlab>> slabs_;
  std::shared_ptr<Reducer> reducer_;
};

}  // namespace gemel::parallel
