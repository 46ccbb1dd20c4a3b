// How a pipeline's options cut a model into stages, and a batch into micro-batches.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "frontends/cli/strategies/strategy.h"
#include "frontends/distributed/pipeline/model_cut.h"
#include "frontends/distributed/pipeline/pipeline.h"
#include "parallel/collectives/communication_thread.h"
#include "parallel/pipeline/schedule.h"

namespace gemel::cli {

struct PlannedPipeline {
  Specs micro_batch;                 // of its tensors
  std::vector<std::string> modules;  // the first one of each piece but the first: by hand, or by measured cost
  distributed::PipelinePlan plan;    // cut before these
};

struct PipelineOptions {
  int stages = 0;  // 0: as many as ranks; else a divisor of them
  parallel::ScheduleKind schedule = parallel::ScheduleKind::one_f_one_b;
  int virtual_stages = 1;                   // pieces a stage
  std::int64_t micro_batches = 0;           // 0: as many as micro_batches_for says
  bool measures = false;                    // fewer than these may be faster, which `measured` finds out
  static constexpr int kMostByDefault = 4;  // a stage
  std::vector<std::string> modules{};       // the first one of each piece but the first; empty: by cost

  parallel::PipelineShape shape(int ranks) const { return {schedule, stages ? stages : ranks, virtual_stages}; }
  /// Of a batch of so many samples in each copy. @throws UsageError where the schedule cannot run them
  std::int64_t micro_batches_of(std::int64_t samples, int ranks) const;
  /// With as many micro-batches as make a step fastest, and the cut for them: the most, and half as many for as long as that is faster. Collective.
  /// @param shard, means  as below  @throws as below
  PipelineOptions measured(Session& session, parallel::CommunicationThread& communication, train::Task& task, const Specs& shard,
                           distributed::PipelineMeans means) const;
  /// Collective.
  /// @param shard  specs of the tensors of the largest shard of a batch  @param means  of its shape, the micro-batches of that shard alone
  /// @throws UsageError, MemoryError  what the cut is refused for
  PlannedPipeline plan(Session& session, parallel::CommunicationThread& communication, train::Task& task, const Specs& shard,
                       distributed::PipelineMeans means) const;
};

/// But for the shape: that is the options'.
distributed::PipelineMeans means_of(const ModelUse& use);

/// As many micro-batches as are asked for; else the most, up to four a stage, of which the model accepts the smallest one of every shard, or the
/// fewest that the schedule takes.
/// @param shards   samples that copies have of batches, the last one of an epoch among them
/// @param accepts  whether the model takes so many samples at once
/// @throws UsageError where the schedule cannot run one of them
std::int64_t micro_batches_for(const PipelineOptions& options, int ranks, std::span<const std::int64_t> shards,
                               const std::function<bool(std::int64_t samples)>& accepts);
/// The samples that copies of a model have of batches of so many: the smallest and the largest shard of each, but for empty ones.
std::vector<std::int64_t> shards_of(std::span<const std::int64_t> batches, int copies);

}  // namespace gemel::cli
