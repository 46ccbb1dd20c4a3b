// Partition of a model into the pieces of a pipeline, such that the slowest stage is as fast as possible within each device's memory.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace gemel::parallel {

/// A unit of the model's chain that is not divided. Times and bytes, except those of parameters and of a step, are for one micro-batch.
struct PipelineUnit {
  double forward_s = 0, backward_s = 0;  // on the reference device
  std::int64_t parameter_bytes = 0;      // one copy of the trained weights
  std::int64_t activation_bytes = 0;     // kept from forward to backward, with the unit's input
  std::int64_t boundary_bytes = 0;       // sent if the chain is cut after the unit: its output and what skips over the cut; 0 for the last unit
  std::int64_t recomputed_bytes = 0;     // held once, while a backward pass recomputes the forward pass
  std::int64_t other_bytes = 0;          // held once, at all times: frozen weights, and factors of gradients that are computed at the end of a step
  double step_s = 0;                     // once a step, behind its backward passes: gradients that are left to its end, and the update
};

struct PartitionProblem {
  std::vector<PipelineUnit> units;  // in the order of the chain
  PipelineShape shape;
  std::vector<double> rates;                   // [stage] speed of its device relative to the reference device; above 0
  std::vector<std::int64_t> memory_bytes;      // [stage] of its device; above 0
  int parameter_copies = 2;                    // weights, gradients and the optimizer's slots
  double seconds_per_byte = 0, latency_s = 0;  // of a message
};

/// A partition of the chain. A stage's time is that of its computation at its device's speed and of its messages: an activation one way and a gradient of the
/// same size the other way. Its memory has all copies of its parameters, the activations of the micro-batches that the schedule makes it hold, what one
/// backward pass recomputes, of its pieces the largest, and other_bytes.
struct Partition {
  std::vector<int> first;                 // [piece] its first unit; it ends before the next piece's
  std::vector<double> stage_s;            // [stage] for a micro-batch, with its part of what is done once a step
  std::vector<std::int64_t> stage_bytes;  // [stage] peak
  double slowest_s = 0;
  double at_least_s = 0;  // lower bound over all cuts; equals slowest_s if the search proved it optimal
};

/// Returns the cut whose slowest stage is fastest. With one piece a stage it is exact, by dynamic programming in O(stages x units^2). With several it is a
/// branch and bound that tries the most balanced cuts first: exact if it ends within its tries, as up to about forty units and four stages of two pieces; else
/// at_least_s bounds the distance to the optimum.
/// @throws UsageError   if there are more pieces than units, or `validate` refuses the shape
/// @throws MemoryError if no cut fits (with several pieces a stage: none was found); names the stage, what it needs in the nearest cut, what it has, and the
///   number of stages that would fit
Partition partition(const PartitionProblem& problem);

/// Returns the smallest number of stages, with as many pieces each, for which some cut fits; none if no number does. Additional devices are taken to have the
/// memory of the smallest.
/// @param least  smallest number to try
std::optional<int> stages_that_would_do(const PartitionProblem& problem, int least = 1);

}  // namespace gemel::parallel
