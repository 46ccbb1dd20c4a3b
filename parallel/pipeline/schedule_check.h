// A proof that a schedule can be run, without devices, messages or time: the tests give it every shape.
#pragma once
#include <string>

#include "parallel/pipeline/schedule.h"

namespace gemel::parallel {

/// Proves of any schedule that
/// - each piece takes each micro-batch forward once and, in the order of micro-batches, backward once, and each stage's update comes last;
/// - every boundary between two stages has one send and one receive of each micro-batch either way, in one order under each tag;
/// - it runs to its end where a send does not wait for its receive.
/// @throws InternalError  names the stage and the first action that is amiss, or those that wait for each other
void check(const Schedule& schedule);

/// Which actions would wait for each other for ever where a send returned only when its receive has begun; "" where the schedule runs so too.
/// Not with 1f1b of two stages and micro-batches or more: one stage sends an activation where the next one sends back a gradient.
/// @param schedule  one that `check` has passed
std::string deadlock_without_buffers(const Schedule& schedule);

}  // namespace gemel::parallel
