#include "frontends/distributed/exposed_communication.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>

#include "engine/base/event.h"
#include "engine/device/device_access.h"

namespace gemel::distributed {

double exposed_seconds(Session& session, const std::function<void()>& wait) {
  using Clock = std::chrono::steady_clock;
  const auto computed_at = std::make_shared<std::atomic<Clock::time_point>>(Clock::time_point::max());
  const auto begin = Clock::now();
  mark(session).then([computed_at] { *computed_at = Clock::now(); });
  wait();
  return std::max(0.0, std::chrono::duration<double>(Clock::now() - std::max(begin, computed_at->load())).count());
}

}  // namespace gemel::distributed
