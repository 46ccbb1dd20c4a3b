// What a run of training does otherwise where its model lies in the stages of a pipeline.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "engine/base/error.h"
#include "engine/files/safetensors.h"
#include "frontends/cli/job/pipeline_plan.h"
#include "frontends/cli/run/fallback_write.h"
#include "frontends/cli/run/train_run.h"
#include "frontends/cli/system/console.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/state/finite_check.h"
#include "frontends/nn/state/state_dict.h"

namespace gemel::cli {
bool has_batch_statistics(nn::Module& model) {
  bool has = false;
  model.visit_all<nn::BatchNorm2d>([&](nn::BatchNorm2d&) { has = true; });
  return has;
}

/// In a pipeline a stage computes its pieces again, not the model its blocks.
distributed::StageOptions TrainRun::stage_options() const {
  return {.frontend = options_.frontend,
          .passes = options_.common.passes,
          .kept = options_.recompute == models::RecomputedParts::none ? Kept::all : Kept::inputs,
          .keeps_spans = !options_.common.profile.empty()};
}

/// @param batch  of all ranks
void TrainRun::build_stage(Specs batch) {
  Session& session = scope_.session();
  const std::int64_t samples = batch[0].shape[0];
  for (Spec& spec : batch) spec.shape[0] = (samples + copies() - 1) / copies();
  const PlannedPipeline planned = planned_pipeline(session, job_, *task_, batch,
                                                   {.shape = {.micro_batches = static_cast<int>(micro_batches(samples))},
                                                    .memory_bytes = scope_.memory_limit(),
                                                    .parameter_copies = options_.optimizer.parameter_copies(),
                                                    .stage = stage_options()});
  pipeline_.emplace(session, *job_.communication(), *task_, planned.micro_batch, planned.plan);
  if (!options_.weights.empty()) tell_loaded(nn::load_weights(*model_, session, options_.weights, nn::Mismatch::keep_output_layers, nn::Extent::materialised));
  optimizer_ = options_.optimizer.make(pipeline_->groups([this](const ParameterSet& mine) { return work_->groups(mine); }));
  pipeline_->attach(*optimizer_, options_.parallel.data_parallel({.keeps_spans = !options_.common.profile.empty()}).reducer);
  const auto m = planned.plan.shape.micro_batches;
  const auto& modules = std::get<std::vector<std::string>>(planned.plan.cuts);
  cli::say("pipeline: {} of {} micro-batches, {}{}\n", to_string(planned.plan.shape.kind), m,
           modules.empty() ? "one stage" : fmt::format("cut before {}", fmt::join(modules, ", ")), copies() > 1 ? fmt::format("; {} copies", copies()) : "");
  if (has_batch_statistics(*model_) && !options_.freeze_norm && m > 1) cli::say("pipeline: batch statistics are those of a micro-batch\n");
}

std::optional<int> TrainRun::stages_that_would_do() const {
  const auto model = work_->model();
  if (options_.freeze_backbone) model->freeze_backbone();
  if (options_.freeze_norm) model->freeze_norm();
  const auto task = work_->task(*model);
  const std::int64_t batch = std::min(options_.batch_size, work_->train_data().size()), m = std::min(kHintMicroBatches, batch), n = batch / m;
  try {
    const distributed::PipelineMeans means{.shape = {.micro_batches = static_cast<int>(m)},
                                           .memory_bytes = scope_.memory_limit(),
                                           .parameter_copies = options_.optimizer.parameter_copies(),
                                           .stage = stage_options()};
    const auto costs = distributed::pipeline_costs(*task, work_->batch(n), means);
    return parallel::stages_that_would_do(distributed::partition_problem(costs, means), 2);
  } catch (const Error&) {  // batch statistics of one value a channel, for one: the hint is left out
    return std::nullopt;
  }
}

/// Those of a last step that went wrong are told, and written nowhere: no later step's loss would tell.
void TrainRun::save_weights() {
  namespace fs = std::filesystem;
  if (options_.save.empty()) return;
  const bool writes = job_.rank() == 0;  // of a job's ranks the first writes files
  if (!writes && !pipeline_) return;
  const std::vector<nn::StateEntry> state = pipeline_ ? pipeline_->whole_state() : nn::state_dict(*model_);  // all stages have a part
  if (!writes) return;
  std::vector<NamedTensor> tensors;
  for (const nn::StateEntry& e : state) tensors.push_back({e.name, e.spec, e.bytes});
  if (const auto wrong = nn::not_finite_in(tensors))
    throw Error(fmt::format("train: {} after step {}: nothing is saved in {}; accepted: a smaller --lr, or --clip-norm", *wrong, trainer_->state().step,
                            options_.save));
  std::error_code none;
  const fs::path others[] = {options_.checkpoint_dir, options_.common.log_dir, fs::current_path(none), fs::temp_directory_path(none)};
  write_or_rescue(options_.save, others, [&](const fs::path& path) { write_safetensors(path, tensors); });
}

std::int64_t TrainRun::micro_batches(std::int64_t samples) const {
  if (!options_.parallel.pipeline) return options_.accumulate;
  const PipelineOptions& pipeline = *options_.parallel.pipeline;
  if (const std::int64_t least = samples / copies(); least > 0) pipeline.micro_batches_of(least, job_.size());  // may refuse the smaller shards
  return pipeline.micro_batches_of((samples + copies() - 1) / copies(), job_.size());
}

}  // namespace gemel::cli
