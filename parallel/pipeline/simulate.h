// Simulates a step of a pipeline: its time, its bubble, and when each stage does what.
#pragma once
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace gemel::parallel {

struct SimulatedCosts {
  std::vector<double> forward_s, backward_s;  // [piece] for a full micro-batch on the piece's stage
  std::vector<double> transfer_s;             // [piece but the last] across the boundary after it, in either direction; empty: 0
  std::vector<double> sizes;                  // [micro-batch] size relative to a full one, which scales all times; empty: all are full
  std::vector<double> update_s{};             // [stage] of its update and what else a step does once behind its backward passes; empty: 0
};

struct PipelineTimes {
  /// Time of an action. Computation or update: when it runs. Send: when the message is on its way. Receive: how long the stage waits for it.
  struct Span {
    int stage;
    Action action;
    double begin_s, end_s;
  };
  double total_s = 0;          // from the first forward pass to the end of the last update
  double ideal_s = 0;          // computation of the slowest stage without pauses
  std::vector<double> busy_s;  // [stage] in computation
  std::vector<Span> spans;     // of stage 0 in order, then of stage 1 and so on

  /// Lost time over ideal time. With balanced pieces and free transfers (stages - 1) / (virtual stages x micro-batches).
  double bubble() const { return (total_s - ideal_s) / ideal_s; }
};

/// Simulates a schedule. Computation and updates occupy their stage. A message leaves when it is made, or after the one before it between the same
/// two stages in the same direction. It travels while both stages compute, and waits at its destination until it is received. Times are exact if sums of the
/// costs are, such as of whole numbers.
/// @throws InternalError if the schedule does not pass `check`, or costs have another number of pieces or micro-batches
PipelineTimes simulate(const Schedule& schedule, const SimulatedCosts& costs);

}  // namespace gemel::parallel
