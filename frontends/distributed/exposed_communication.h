// How long a stage or a copy of it waits for others while its device has nothing to compute.
#pragma once
#include <functional>

#include "engine/core/session.h"

namespace gemel::distributed {

/// Runs what waits for other ranks. @return seconds of it in which all that the session had enqueued was computed
double exposed_seconds(Session& session, const std::function<void()>& wait);

}  // namespace gemel::distributed
