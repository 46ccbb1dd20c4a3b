// Plans the stages of a pipeline from a job's options.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "frontends/cli/job/job.h"
#include "frontends/distributed/pipeline/model_cut.h"
#include "frontends/distributed/pipeline/pipeline.h"

namespace gemel::cli {

struct PlannedPipeline {
  Specs micro_batch;               // specs of its tensors
  distributed::PipelinePlan plan;  // cut before modules, which are given or chosen by measured cost
};

/// Returns the number of micro-batches that the options ask for; else the largest number, up to four a stage, whose smallest micro-batch of every shard the
/// model accepts, or the smallest number that the schedule takes.
/// @param shards   numbers of samples that copies get of batches, the last batch of an epoch among them
/// @param accepts  tells if the model takes that many samples at once
/// @throws UsageError if the schedule cannot run one of the shards
std::int64_t micro_batches_for(const PipelineOptions& options, int ranks, std::span<const std::int64_t> shards,
                               const std::function<bool(std::int64_t samples)>& accepts);
/// Returns the numbers of samples that copies of a model get of batches of these sizes: the smallest and the largest shard of each, except empty ones.
std::vector<std::int64_t> shards_of(std::span<const std::int64_t> batches, int copies);

/// Cuts the model into stages. Collective.
/// @param shard  specs of the tensors of the largest shard of a batch  @param means  its shape has the micro-batches of that shard alone
/// @throws UsageError, MemoryError if the model cannot be cut so
PlannedPipeline planned_pipeline(Session& session, Job& job, train::Task& task, const Specs& shard, distributed::PipelineMeans means);

}  // namespace gemel::cli
