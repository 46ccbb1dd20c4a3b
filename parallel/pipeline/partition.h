// Cutting a model into the pieces of a pipeline: the slowest stage as fast as can be under each device's memory.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace gemel::parallel {

/// A link of the model's chain, which no cut divides. Times and bytes but those of parameters are of one micro-batch.
struct PipelineUnit {
  double forward_s = 0, backward_s = 0;  // on the reference device
  std::int64_t parameter_bytes = 0;      // the weights alone, of those that are trained
  std::int64_t activation_bytes = 0;     // kept from forward to backward, its input included
  std::int64_t boundary_bytes = 0;       // across a cut behind it: its output and what skips over the cut; of the last one nothing
  std::int64_t recomputed_bytes = 0;     // held once, while a backward pass computes the forward pass again
  std::int64_t other_bytes = 0;          // held once, all the time: frozen weights, and factors of gradients that are computed at the end of a step
};

struct PartitionProblem {
  std::vector<PipelineUnit> units;  // in the order of the chain
  PipelineShape shape;
  std::vector<double> rates;                   // [stage] of its device, in multiples of the reference device's; above 0
  std::vector<std::int64_t> memory_bytes;      // [stage] of its device; above 0
  int parameter_copies = 2;                    // weights, gradients, and what the optimizer keeps for each
  double seconds_per_byte = 0, latency_s = 0;  // of a message
};

/// A stage's time is that of its computes at its device's rate and of the messages over its boundaries, an activation one way and a gradient of
/// the same size the other. Its memory is all copies of its parameters, the activations of the micro-batches that the schedule makes it hold, what one backward
/// pass computes again, and what it holds besides.
struct Partition {
  std::vector<int> first;                 // [piece] its first unit; it ends where the next one begins
  std::vector<double> stage_s;            // [stage] of a micro-batch
  std::vector<std::int64_t> stage_bytes;  // [stage] at its largest
  double slowest_s = 0;
  double at_least_s = 0;  // no cut is faster: slowest_s itself, where the search could prove it
};

/// The cut whose slowest stage is fastest. With one piece a stage exact, by a dynamic program in O(stages x units^2). With more, a branch and
/// bound that tries the most balanced cuts first: exact where it ends within its tries, as up to some forty units and four stages of two pieces;
/// else at_least_s tells how far from the best it can be.
/// @throws UsageError   more pieces than units; what `validate` refuses of the shape
/// @throws MemoryError  none fits (with more than one piece a stage: none was found); names the stage, what it needs in the cut that comes
///                      nearest, what it has, and the number of stages that would do
Partition partition(const PartitionProblem& problem);

/// The smallest number of stages, each of as many pieces as here, of which some cut fits; none: with no number of them. Further devices than
/// there are have the memory of the smallest.
/// @param least  that is tried
std::optional<int> stages_that_would_do(const PartitionProblem& problem, int least = 1);

}  // namespace gemel::parallel
