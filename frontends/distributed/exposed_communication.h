// Measures exposed communication: how long a rank waits for others while its device has nothing to compute.
#pragma once
#include <functional>

#include "engine/core/session.h"

namespace gemel::distributed {

/// Calls `wait`, which waits for other ranks.
/// @return seconds of it after the session had computed all enqueued work
double exposed_seconds(Session& session, const std::function<void()>& wait);

}  // namespace gemel::distributed
