// Checks that a schedule can be run, without devices, messages or time.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/schedule_progress.h"

namespace gemel::parallel {

/// Verifies that
/// - each piece runs each micro-batch forward once and backward once, backward in the order of micro-batches, and each stage's update comes last;
/// - every boundary between two stages has one send and one receive of each micro-batch in each direction, in one order for each tag;
/// - the schedule runs to its end if no send waits for its receive.
/// @throws InternalError naming the stage and the first wrong action, or the actions that wait for each other
void check(const Schedule& schedule);

/// Describes the stages that wait for each other, each for the next one and the last for the first, from the lowest one on; "" where all are at their end.
/// @param progress  in which no stage can go on  @param waits  what a stage's next action waits for
std::string circle(const Schedule& schedule, const Progress& progress, const std::function<std::optional<Action>(int stage)>& waits);

}  // namespace gemel::parallel
