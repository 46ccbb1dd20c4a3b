// A step of a pipeline on a simulated clock: its time, its bubble, and what each stage does when.
#pragma once
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace gemel::parallel {

struct SimulatedCosts {
  std::vector<double> forward_s, backward_s;  // [piece] of a whole micro-batch on the piece's stage
  std::vector<double> transfer_s;             // [piece but the last] across the boundary behind it, either way; empty: nothing
  std::vector<double> sizes;                  // [micro-batch] of a whole one, to which all times are proportional; empty: all are whole
};

struct PipelineTimes {
  /// Of a compute or an update: when it runs. Of a send: when the message is on its way. Of a receive: how long the stage waits for it.
  struct Span {
    int stage;
    Action action;
    double begin_s, end_s;
  };
  double total_s = 0;          // from the first forward to the last update
  double ideal_s = 0;          // the slowest stage's computes without a pause
  std::vector<double> busy_s;  // [stage] in computes
  std::vector<Span> spans;     // of stage 0, in its order, then of stage 1 and so on

  /// Time lost over ideal time. With balanced pieces and free transfers (stages - 1) / (virtual stages x micro-batches).
  double bubble() const { return (total_s - ideal_s) / ideal_s; }
};

/// Computes take a stage's whole time, updates none. A message leaves when it is made, or behind the one before it on the way between the same
/// two stages in the same direction; it goes on while both stages compute, and waits at the other end until it is received.
/// Exact where sums of the costs are, as of whole numbers.
/// @throws InternalError  the schedule does not pass `check`, or the costs are of another number of pieces or micro-batches
PipelineTimes simulate(const Schedule& schedule, const SimulatedCosts& costs);

}  // namespace gemel::parallel
