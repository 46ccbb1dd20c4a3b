// Memory for gradients that the ranks of a machine see: what is reduced there needs no copy.
#pragma once
#include <memory>
#include <vector>

#include "engine/core/session.h"
#include "engine/parameters/parameter_slab.h"
#include "parallel/collectives/communication_thread.h"

namespace gemel::parallel {

class GradientMemory {
 public:
  /// Collective among its ranks. Tries whether the device computes in place in memory that is given to it: what the host writes a kernel changes, and the
  /// host reads. On every rank, or it is not used.
  /// @param among  of a group of the ranks, made in the communication thread, and outlives this; null: all
  GradientMemory(Session& session, CommunicationThread& communication, Collectives* among = nullptr);

  /// For ParameterSlab::pack, in the same order on every rank; empty where gradients lie in the devices' own memory.
  HostMemorySource source();
  /// Where the host finds a slab of gradients that lies in this memory; null for any other.
  std::byte* find(const Slab& gradients) const;
  bool in_place() const { return in_place_; }

 private:
  CommunicationThread& communication_;
  Collectives* among_;
  bool in_place_ = false;
  std::shared_ptr<std::vector<HostBytes>> given_ = std::make_shared<std::vector<HostBytes>>();
};

}  // namespace gemel::parallel
