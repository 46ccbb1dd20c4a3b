#include "frontends/cli/strategies/pipeline_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>

#include "engine/base/error.h"

namespace gemel::cli {

std::int64_t PipelineOptions::micro_batches_of(std::int64_t samples, int ranks) const {
  const int p = shape(ranks).stages;
  const std::int64_t m = std::min<std::int64_t>(micro_batches ? micro_batches : kMostByDefault * p, samples);
  if (schedule != parallel::ScheduleKind::interleaved) return m;
  if (micro_batches % p != 0)
    throw UsageError(
        fmt::format("--microbatches: {} with --pipeline-schedule interleaved over {} stages; accepted: a multiple of the stages", micro_batches, p));
  if (m < p)
    throw UsageError(fmt::format(
        "--pipeline-schedule: interleaved with {} samples over {} stages; accepted: as many samples as stages in every batch, the last one too; gpipe; 1f1b",
        samples, p));
  return m - m % p;  // a smaller batch has fewer
}

std::int64_t micro_batches_for(const PipelineOptions& options, int ranks, std::span<const std::int64_t> shards,
                               const std::function<bool(std::int64_t)>& accepts) {
  if (options.micro_batches) return options.micro_batches;
  const int stages = options.shape(ranks).stages, fewest = options.schedule == parallel::ScheduleKind::interleaved ? stages : 1;
  std::map<std::int64_t, bool> known;
  const auto accepted = [&](std::int64_t samples) {
    const auto [it, is_new] = known.try_emplace(samples);
    if (is_new) it->second = accepts(samples);
    return it->second;
  };
  PipelineOptions tried = options;
  for (tried.micro_batches = PipelineOptions::kMostByDefault * stages; tried.micro_batches > fewest; tried.micro_batches -= fewest)
    if (std::ranges::all_of(shards, [&](std::int64_t samples) { return accepted(samples / tried.micro_batches_of(samples, ranks)); })) break;
  return tried.micro_batches;
}

std::vector<std::int64_t> shards_of(std::span<const std::int64_t> batches, int copies) {
  std::vector<std::int64_t> out;
  for (const std::int64_t samples : batches)
    for (const std::int64_t shard : {samples / copies, (samples + copies - 1) / copies})
      if (shard > 0 && std::ranges::find(out, shard) == out.end()) out.push_back(shard);
  return out;
}

distributed::PipelineMeans means_of(const ModelUse& use) {
  return {.shape = {.micro_batches = static_cast<int>(use.micro_batches)},
          .memory_bytes = use.memory_bytes,
          .parameter_copies = use.parameter_copies,
          .trains = use.purpose == Purpose::train,
          .stage = {.frontend = use.frontend,
                    .passes = use.passes,
                    .kept = use.recompute == models::RecomputedParts::none ? Kept::all : Kept::inputs,
                    .keeps_spans = use.keeps_spans}};
}

namespace {

Specs micro_batch_of(const Specs& shard, int parts) {
  Specs out = shard;
  for (Spec& spec : out) spec.shape[0] = std::max<std::int64_t>(1, spec.shape[0] / parts);
  return out;
}

/// Of modules that are given.
void check_count(const std::vector<std::string>& modules, const parallel::PipelineShape& shape) {
  if (modules.empty() || std::ssize(modules) + 1 == shape.pieces()) return;
  throw UsageError(fmt::format("--stages: {} cuts the model into {} pieces; accepted: {}, {} a stage", fmt::join(modules, ","), modules.size() + 1,
                               shape.pieces(), shape.virtual_stages == 1 ? "one" : std::to_string(shape.virtual_stages)));
}

}  // namespace

PipelineOptions PipelineOptions::measured(Session& session, parallel::CommunicationThread& communication, train::Task& task, const Specs& shard,
                                          distributed::PipelineMeans means) const {
  const int most = means.shape.micro_batches;
  means.shape = shape(communication.size());
  check_count(modules, means.shape);
  means.modules = modules;
  const int fewest = schedule == parallel::ScheduleKind::interleaved ? means.shape.stages : 1;
  PipelineOptions out = *this;
  out.measures = false;
  double least = std::numeric_limits<double>::infinity();
  for (int m = most; m >= fewest && m % fewest == 0; m /= 2) {
    means.shape.micro_batches = m;
    try {
      const distributed::MeasuredCuts cuts = distributed::balanced_cuts(session, communication, task, micro_batch_of(shard, m), means);
      if (cuts.step_s >= least) break;
      least = cuts.step_s;
      out.micro_batches = m;
      out.modules = cuts.modules;
    } catch (const MemoryError&) {
      if (m == most) throw;
      break;  // larger micro-batches need no less
    }
  }
  return out;
}

PlannedPipeline PipelineOptions::plan(Session& session, parallel::CommunicationThread& communication, train::Task& task, const Specs& shard,
                                      distributed::PipelineMeans means) const {
  const int parts = means.shape.micro_batches;
  means.shape = shape(communication.size());
  means.shape.micro_batches = parts;
  PlannedPipeline out{.micro_batch = micro_batch_of(shard, parts), .modules = modules};
  check_count(modules, means.shape);
  if (modules.empty() && means.shape.pieces() > 1) out.modules = distributed::balanced_cuts(session, communication, task, out.micro_batch, means).modules;
  out.plan = {.cuts = out.modules, .shape = means.shape, .options = means.stage, .trains = means.trains};
  return out;
}

}  // namespace gemel::cli
