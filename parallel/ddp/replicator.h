// Replicator: before each step every rank gets the parameters of the first one, which alone updates them. What PyTorch's DataParallel does.
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
  /// @param parameters  in slabs  @param reducer  is told of the time that this takes
  Replicator(Session& session, CommunicationThread& communication, const std::vector<NamedValue>& parameters, std::shared_ptr<Reducer> reducer);

  /// In operators, on every rank: what follows sees the first one's parameters.
  void replicate();
  /// Broadcasts a slab's parameters between what the session has computed and what it computes next.
  void broadcast(std::size_t slab);

 private:
  Session& session_;
  CommunicationThread& communication_;
  std::vector<std::shared_ptr<ParameterSlab>> slabs_;
  std::shared_ptr<Reducer> reducer_;
};

}  // namespace gemel::parallel
