// How a job's options cut a model into the stages of a pipeline.
#pragma once
#include "frontends/cli/job.h"
#include "frontends/distributed/pipeline.h"
#include "frontends/distributed/pipeline_cut.h"

namespace gemel::cli {

struct PlannedPipeline {
  Specs micro_batch;               // of its tensors
  distributed::PipelinePlan plan;  // cut before modules: by hand, or by measured cost
};

/// Collective.
/// @param shard  specs of the tensors of the largest shard of a batch  @param means  but for its shape
/// @throws UsageError, MemoryError  what the cut is refused for
PlannedPipeline planned_pipeline(Session& session, Job& job, train::Task& task, const Specs& shard, distributed::PipelineMeans means);

}  // namespace gemel::cli
