// Runs communication in order with a session's work on its device.
#pragma once
#include <future>
#include <memory>
#include <type_traits>
#include <utility>

#include "engine/device/device_access.h"
#include "parallel/collectives/communication_thread.h"

namespace gemel::parallel {

/// Holds back a session's work until it is destroyed, also after an error: then the host's next call throws, before anything is saved.
struct Gate {
  explicit Gate(Fence made) : fence(std::move(made)) {}
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { fence.complete(); }
  Fence fence;
};

/// Submits work(Collectives&, computed). Event `computed` marks all that the session has enqueued so far; what it enqueues from now on runs after the work. The
/// host does not wait.
template <class Work>
auto submit_stream_ordered(Session& session, CommunicationThread& communication, Work work) {
  const Event computed = mark(session);
  auto gate = std::make_shared<Gate>(make_fence(session));
  wait_for(session, gate->fence.event());
  return communication.submit(
      [work = std::move(work), computed, gate](Collectives& c) mutable {
        const std::shared_ptr<Gate> opened = std::move(gate);  // opened when the work returns or throws
        return work(c, computed);
      },
      [computed] { return computed.done(); });  // with turns: not before, for the session's work may itself wait for gradients that turns reduce
}

}  // namespace gemel::parallel
