// GradientMemory: memory for gradients that all ranks of a machine can read, so that reducing them needs no copies.
#pragma once
#include <memory>
#include <vector>

#include "engine/core/session.h"
#include "engine/parameters/parameter_slab.h"
#include "parallel/collectives/communication_thread.h"

namespace gemel::parallel {

/// Whether the session's device computes in place in memory that the host provides, of a page or more: kernels see what the host writes, and the host what
/// kernels write, without a map or a copy. Writes there.
bool computes_in_place(Session& session, const HostBytes& memory);

class GradientMemory {
 public:
  /// Tests if the device can compute in place in memory that the host provides. The memory is used only if all ranks can. Collective.
  /// @param among  a group of the ranks, made in the communication thread, which must outlive this object; null: all ranks
  GradientMemory(Session& session, CommunicationThread& communication, Collectives* among = nullptr);

  /// Source of memory for ParameterSlab::pack, called in the same order on every rank; empty if gradients are in the devices' own memory.
  HostMemorySource source();
  /// Returns the host's address of a slab of gradients in this memory; null for any other slab.
  std::byte* find(const Slab& gradients) const;
  bool in_place() const { return in_place_; }

 private:
  CommunicationThread& communication_;
  Collectives* among_;
  bool in_place_ = false;
  std::shared_ptr<std::vector<HostBytes>> given_ = std::make_shared<std::vector<HostBytes>>();
};

}  // namespace gemel::parallel
