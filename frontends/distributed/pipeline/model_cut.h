// Where a model is cut into the stages of a pipeline: by what its parts cost.
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

/// The task's forward pass and loss over names in place of the module's state (nn::StateNames): inputs are the task's tensors, the random
/// state, then the state. In the module's mode; it needs no memory.
/// @param inputs  specs of the task's tensors and the random state
Program trace_over_names(Session& session, train::Task& task, const Specs& inputs);

/// A model's parts between the places where it may be cut: before modules of the top two levels of names that have parameters.
struct PipelineCosts {
  std::vector<parallel::PipelineUnit> units;
  std::vector<std::string> modules;  // [unit] it begins with; of the first one ""
};
/// What a pipeline's devices and optimizer are like.
struct PipelineMeans {
  parallel::PipelineShape shape;
  std::int64_t memory_bytes = 0;  // that this rank's device may hold
  int parameter_copies = 3;       // the weights, their gradients, and what the optimizer keeps for each
  bool trains = true;             // false: it evaluates, with weights alone and forwards alone
  StageOptions stage{};
};
/// Bytes are those of the traced program, before any pass. Times are estimates from the operators' records, or with a session on a device
/// measured there, part by part, on zeros.
/// @param micro_batch  specs of its tensors
PipelineCosts pipeline_costs(train::Task& task, const Specs& micro_batch, const PipelineMeans& means = {}, Session* measured_on = nullptr);

/// The partition's problem with devices that are alike.
parallel::PartitionProblem partition_problem(const PipelineCosts& costs, const PipelineMeans& means);
/// The modules before which a partition cuts.
std::vector<std::string> cut_modules(const PipelineCosts& costs, const parallel::Partition& partition);

/// Cuts by times that every rank measures on its own device, so that a slower one gets less. Collective; the same on all ranks.
/// @throws UsageError, MemoryError  what `partition` refuses
std::vector<std::string> balanced_cuts(Session& session, parallel::CommunicationThread& communication, train::Task& task, const Specs& micro_batch,
                                       const PipelineMeans& means);

}  // namespace gemel::distributed
