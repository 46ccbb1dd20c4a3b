// Checks that a schedule can be run, without devices, messages or time.
#pragma once
#include <string>

#include "parallel/pipeline/schedule.h"

namespace gemel::parallel {

/// Verifies that
/// - each piece runs each micro-batch forward once and backward once, backward in the order of micro-batches, and each stage's update comes last;
/// - every boundary between two stages has one send and one receive of each micro-batch in each direction, in one order for each tag;
/// - the schedule runs to its end if no send waits for its receive.
/// @throws InternalError naming the stage and the first wrong action, or the actions that wait for each other
void check(const Schedule& schedule);

/// Returns the actions that would deadlock if each send waited for its receive to begin; "" if none would. 1f1b deadlocks with at least two stages and
/// micro-batches: one stage sends an activation while the next one sends a gradient back.
/// @param schedule  passes `check`
std::string deadlock_without_buffers(const Schedule& schedule);

}  // namespace gemel::parallel
