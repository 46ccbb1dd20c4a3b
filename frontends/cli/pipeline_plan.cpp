#include "frontends/cli/pipeline_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/error.h"

namespace gemel::cli {

PlannedPipeline planned_pipeline(Session& session, Job& job, train::Task& task, const Specs& shard, distributed::PipelineMeans means) {
  const PipelineOptions& options = *job.options().pipeline;
  const std::int64_t samples = shard[0].shape[0], micro_batches = options.micro_batches_of(samples, job.size());
  means.shape = options.shape(job.size());
  means.shape.micro_batches = static_cast<int>(micro_batches);
  PlannedPipeline out;
  for (Spec spec : shard) {
    spec.shape[0] = std::max<std::int64_t>(1, samples / micro_batches);
    out.micro_batch.push_back(spec);
  }
  std::vector<std::string> modules = options.modules;
  if (const int pieces = means.shape.pieces(); !modules.empty() && std::ssize(modules) + 1 != pieces)
    throw UsageError(fmt::format("--stages: {} cuts the model into {} pieces; accepted: {}, {} a stage", fmt::join(modules, ","), modules.size() + 1, pieces,
                                 means.shape.virtual_stages == 1 ? "one" : std::to_string(means.shape.virtual_stages)));
  if (modules.empty() && means.shape.pieces() > 1) modules = distributed::balanced_cuts(session, *job.communication(), task, out.micro_batch, means);
  out.plan = {.cuts = std::move(modules), .shape = means.shape, .options = means.stage, .trains = means.trains};
  return out;
}

}  // namespace gemel::cli
