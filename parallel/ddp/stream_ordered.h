// Communication in the midst of a session's work.
#pragma once
#include <future>
#include <memory>
#include <type_traits>
#include <utility>

#include "engine/device/device_access.h"
#include "parallel/collectives/communication_thread.h"

namespace gemel::parallel {

/// Holds a session's work back. Whoever fails opens it, too: the failure is told by what the host asks next, before anything is saved.
struct Gate {
  explicit Gate(Fence made) : fence(std::move(made)) {}
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { fence.complete(); }
  Fence fence;
};

/// Submits work(Collectives&, computed): `computed` is when all that the session has computed so far is in its tensors, and what it
/// computes from now on begins after the work. The host goes on.
template <class Work>
auto in_step(Session& session, CommunicationThread& communication, Work work) {
  const Event computed = mark(session);
  auto gate = std::make_shared<Gate>(make_fence(session));
  wait_for(session, gate->fence.event());
  return communication.submit(
      [work = std::move(work), computed, gate](Collectives& c) mutable {
        const std::shared_ptr<Gate> opened = std::move(gate);  // when this returns, however that is
        return work(c, computed);
      },
      [computed] { return computed.done(); });  // what it waits for may wait itself for gradients that turns reduce
}

}  // namespace gemel::parallel
