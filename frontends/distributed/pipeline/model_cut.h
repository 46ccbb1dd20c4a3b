// Cuts a model into the stages of a pipeline by the cost of its parts.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/session.h"
#include "engine/graph/capture/program.h"
#include "frontends/distributed/pipeline/stage_piece.h"
#include "frontends/train/tasks/task.h"
#include "parallel/collectives/communication_thread.h"
#include "parallel/pipeline/partition.h"

namespace gemel::distributed {

/// Captures the task's forward pass and loss with symbols in place of the module's state (nn::StateNames). The program's inputs are the task's tensors, the
/// random state, then the state. Runs in the module's mode; needs no memory for the state.
/// @param inputs  specs of the task's tensors and the random state
Program trace_over_names(Session& session, train::Task& task, const Specs& inputs);

/// A model as units between the places where it may be cut: before modules of the top two levels of names that have parameters.
struct PipelineCosts {
  std::vector<parallel::PipelineUnit> units;
  std::vector<std::string> modules;  // [unit] module that it begins with; "" for the first
  double bytes_per_second = 1e10;    // of the device's memory
};
/// Properties of a pipeline's devices and optimizer.
struct PipelineMeans {
  parallel::PipelineShape shape;
  std::int64_t memory_bytes = 0;  // memory limit of this rank's device
  int parameter_copies = 3;       // weights, gradients and the optimizer's slots
  bool trains = true;             // false: evaluation, which has weights and forward passes alone
  StageOptions stage{};
  std::vector<std::string> modules{};  // before which to cut; empty: where the slowest stage is fastest
};
/// Returns a model's units. Bytes are those of the captured program before any pass. Times are estimates from the operators' cost functions.
/// @param micro_batch  specs of its tensors
PipelineCosts pipeline_costs(train::Task& task, const Specs& micro_batch, const PipelineMeans& means = {});

/// Returns the partition problem for equal devices.
parallel::PartitionProblem partition_problem(const PipelineCosts& costs, const PipelineMeans& means);
/// Returns the modules before which a partition cuts. @param first  of the partition
std::vector<std::string> cut_modules(const PipelineCosts& costs, const std::vector<int>& first);

/// Cuts, and how long a step takes with them.
struct MeasuredCuts {
  std::vector<std::string> modules;
  double step_s;  // simulated from the times of the parts; infinity where given modules are not, in their order, among those before which parts are measured
};
/// Chooses cuts by times that every rank measures on its own device, so that a slower one gets less. Collective; returns the same on all ranks.
/// @throws UsageError, MemoryError as `partition`; MemoryError on all ranks where one has not the memory to measure a part
MeasuredCuts balanced_cuts(Session& session, parallel::CommunicationThread& communication, train::Task& task, const Specs& micro_batch,
                           const PipelineMeans& means);

}  // namespace gemel::distributed
