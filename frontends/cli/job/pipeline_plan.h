// How a job's options cut a model into the stages of a pipeline.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "frontends/cli/job/job.h"
#include "frontends/distributed/pipeline/model_cut.h"
#include "frontends/distributed/pipeline/pipeline.h"

namespace gemel::cli {

struct PlannedPipeline {
  Specs micro_batch;               // of its tensors
  distributed::PipelinePlan plan;  // cut before modules: by hand, or by measured cost
};

/// As many micro-batches as are asked for; else the most, up to four a stage, of which the model accepts the smallest one of every shard, or the
/// fewest that the schedule takes.
/// @param shards   samples that copies have of batches, the last one of an epoch among them
/// @param accepts  whether the model takes so many samples at once
/// @throws UsageError where the schedule cannot run one of them
std::int64_t micro_batches_for(const PipelineOptions& options, int ranks, std::span<const std::int64_t> shards,
                               const std::function<bool(std::int64_t samples)>& accepts);
/// The samples that copies of a model have of batches of so many: the smallest and the largest shard of each, but for empty ones.
std::vector<std::int64_t> shards_of(std::span<const std::int64_t> batches, int copies);

/// Collective.
/// @param shard  specs of the tensors of the largest shard of a batch  @param means  of its shape, the micro-batches of that shard alone
/// @throws UsageError, MemoryError  what the cut is refused for
PlannedPipeline planned_pipeline(Session& session, Job& job, train::Task& task, const Specs& shard, distributed::PipelineMeans means);

}  // namespace gemel::cli
