// Pipelines over a transport whose sends wait for their receives.
#pragma once
#include <optional>
#include <string>

#include "parallel/pipeline/schedule_check.h"
#include "parallel/pipeline/schedule_progress.h"

namespace gemel::testing {

/// The actions that would deadlock if each send waited for its receive to begin; "" if none would.
/// @param schedule  passes `check`
inline std::string deadlock_without_buffers(const parallel::Schedule& schedule) {
  using parallel::Action;
  using Kind = Action::Kind;
  parallel::Progress progress(schedule);
  const auto waits = [&](int stage) -> std::optional<Action> {
    const Action& a = *progress.next(stage);
    if (!a.is_send()) return progress.waits_for(stage);
    const Action receive{a.kind == Kind::send_activation ? Kind::receive_activation : Kind::receive_gradient, schedule.other_piece(a), a.micro_batch};
    const Action* const there = progress.next(schedule.peer(a));
    return there && *there == receive ? std::nullopt : std::optional(receive);
  };
  progress.run_all(waits, [](int, const Action&) {});
  return circle(schedule, progress, waits);
}

}  // namespace gemel::testing
