// --parallel pipeline: the model is cut into stages, one a rank, which micro-batches go through one behind the other. Several copies of the pipeline may
// share each batch.
#include "frontends/distributed/pipeline/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "frontends/cli/strategies/pipeline_plan.h"
#include "frontends/cli/strategies/strategy.h"
#include "frontends/cli/system/console.h"
#include "frontends/nn/layers/layers.h"

namespace gemel::cli {
namespace {

void add_pipeline_options(po::options_description& options, Purpose purpose) {
  auto option = options.add_options();
  option("pipeline-stages", po::value<std::int64_t>()->default_value(0),
         "stages of a pipeline, a divisor of the ranks: the others are copies that share each batch (default: as many as ranks)");
  option("microbatches", po::value<std::int64_t>()->default_value(0),
         "parts of a batch that follow each other through a pipeline; 1: plain model parallelism "
         "(default: the fastest, by measured time, up to four a stage, of which the model accepts every one)");
  option("stages", po::value<std::string>()->default_value("auto"), "auto: by measured cost; or the first module of each stage but the first: layer2,layer4");
  if (purpose != Purpose::train) return;  // there are no backward passes to be put in order
  option("pipeline-schedule", po::value<std::string>()->default_value("1f1b"), "gpipe, 1f1b or interleaved");
  option("virtual-stages", po::value<std::int64_t>()->default_value(2), "pieces of the model that a stage has, with interleaved");
}

std::vector<std::string> module_names(const std::string& list) {
  if (list == "auto") return {};
  std::vector<std::string> out = split_at_commas(list);
  if (std::ranges::any_of(out, &std::string::empty))
    throw UsageError(
        fmt::format("--stages: '{}' has an empty name; accepted: auto, or the first module of each stage but the first, with commas between", list));
  return out;
}

PipelineOptions read_options(const po::variables_map& v) {
  PipelineOptions o;
  o.stages = static_cast<int>(whole_number(v, "pipeline-stages", 0, 1e4));
  o.micro_batches = whole_number(v, "microbatches", 0, 1e6);
  o.measures = o.micro_batches == 0;
  o.modules = module_names(v["stages"].as<std::string>());
  if (!v.count("pipeline-schedule")) return o;
  const auto schedule = v["pipeline-schedule"].as<std::string>();
  check_choice("--pipeline-schedule", schedule, {"gpipe", "1f1b", "interleaved"});
  o.schedule = parallel::parse_schedule(schedule);
  const bool interleaved = o.schedule == parallel::ScheduleKind::interleaved;
  o.virtual_stages = interleaved ? static_cast<int>(whole_number(v, "virtual-stages", 2, 1e3)) : 1;
  if (!interleaved && is_given(v, "virtual-stages"))
    throw UsageError(
        fmt::format("--virtual-stages: it is given with --pipeline-schedule {}, where a stage is one piece; accepted: with interleaved", schedule));
  return o;
}

/// This rank's stage.
class StageModel : public RankModel {
 public:
  StageModel(Session& session, Job& job, train::Task& task, PlannedPipeline planned)
      : session_(session), job_(job), task_(task), planned_(std::move(planned)) {}

  void build(const std::function<void(nn::Extent)>& load) override {
    pipeline_.emplace(session_, *job_.communication(), task_, planned_.micro_batch, planned_.plan);
    if (load) load(nn::Extent::materialised);
  }
  std::vector<optim::Group> groups(const optim::Grouping& grouping) const override { return pipeline_->groups(grouping); }
  void attach(std::unique_ptr<optim::Optimizer> optimizer) override {
    optimizer_ = std::move(optimizer);
    parallel::ReducerOptions reducer = job_.options().reducer;
    reducer.keeps_spans = planned_.plan.options.keeps_spans;
    pipeline_->attach(*optimizer_, reducer);
  }
  optim::Optimizer& optimizer() override { return *optimizer_; }
  train::Ranks& ranks() override { return *pipeline_; }
  train::Stepper& stepper() override { return *pipeline_; }
  /// The host reads a batch's results before the next one begins.
  std::function<Values()> inference(const datasets::Batch& shard) override {
    return [this, shard] {
      pipeline_->evaluate(shard).get();
      return Values();
    };
  }
  graph::ArenaUse arena() const override { return pipeline_->arena(); }
  std::vector<parallel::Span> take_spans() override { return pipeline_->take_spans(); }
  std::vector<nn::StateEntry> whole_state() override { return pipeline_->whole_state(); }

  Json about_rank() const override { return {{"stage", pipeline_->place().stage()}}; }
  Json tell_ranks() override {
    const parallel::PipelineShape& shape = planned_.plan.shape;
    const int copies = pipeline_->place().copies();
    say("pipeline: {} of {} micro-batches, {}{}\n", to_string(shape.kind), shape.micro_batches,
        planned_.modules.empty() ? "one stage" : fmt::format("cut before {}", fmt::join(planned_.modules, ", ")),
        copies > 1 ? fmt::format("; {} copies", copies) : "");
    if (shape.micro_batches > 1 && nn::has_batch_statistics(task_.module()) && !task_.module().norm_frozen())
      say("pipeline: batch statistics are those of a micro-batch\n");
    return Json::object();
  }

 private:
  Session& session_;
  Job& job_;
  train::Task& task_;
  PlannedPipeline planned_;
  std::optional<distributed::Pipeline> pipeline_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

class PipelineStrategy : public Strategy {
 public:
  PipelineStrategy(const Style& style, const po::variables_map& v) : Strategy(style), options_(read_options(v)) {
    for (const char* name : {"bucket-mb", "first-bucket-mb", "compression", "collective"})
      if (is_given(v, name)) sums_option_ = name;
  }

  int copies(int ranks) const override {
    const int stages = options_.shape(ranks).stages;
    if (ranks % stages != 0) throw UsageError(fmt::format("--pipeline-stages: {} stages on {} ranks; accepted: a divisor of the ranks", stages, ranks));
    return ranks / stages;
  }
  int copy(int rank, int ranks) const override { return rank / options_.shape(ranks).stages; }
  Sharer sharer() const override { return {"copy", "copies of the pipeline"}; }

  void check(Purpose purpose, std::int64_t batch_size, int ranks) const override {
    if (purpose != Purpose::train && !sums_option_.empty())
      throw UsageError(fmt::format("--{}: it is given with {}, which sums no gradients; accepted: with train and bench", sums_option_,
                                   purpose == Purpose::evaluate ? "eval" : "bench infer"));
    check_shards(batch_size, ranks);
    const int shards = copies(ranks);
    if (options_.micro_batches > batch_size / shards)
      throw UsageError(fmt::format("--microbatches: {} of {} samples that a copy of the model has of a batch; accepted: at most one a sample",
                                   options_.micro_batches, batch_size / shards));
    if (shards == 1 && !sums_option_.empty())
      throw UsageError(fmt::format(
          "--{}: it is given with a pipeline of one copy, in which no gradients are summed over ranks; accepted: with --pipeline-stages, for several copies",
          sums_option_));
  }

  /// A default that the model would decline is none.
  std::shared_ptr<const Strategy> fitted(int ranks, std::span<const std::int64_t> batches,
                                         const std::function<bool(std::int64_t samples)>& accepts) const override {
    auto out = std::make_shared<PipelineStrategy>(*this);
    out->options_.micro_batches = micro_batches_for(options_, ranks, shards_of(batches, copies(ranks)), accepts);
    return out;
  }
  std::shared_ptr<const Strategy> measured(Session& session, Job& job, train::Task& task, const ModelUse& use,
                                           std::optional<std::int64_t> recorded) const override {
    if (!options_.measures) return shared_from_this();
    const auto of_ranks = distributed::texts_of_ranks(*job.communication(), std::to_string(recorded.value_or(0)));
    auto out = std::make_shared<PipelineStrategy>(*this);
    if (const std::int64_t kept = std::stoll(of_ranks.front()); kept > 0) {
      out->options_.micro_batches = kept;
      out->options_.measures = false;
    } else {
      out->options_ = options_.measured(session, *job.communication(), task, use.shard, means_of(use));
    }
    return out;
  }
  std::int64_t micro_batches(std::int64_t samples, int ranks, std::int64_t) const override {
    const int shards = copies(ranks);
    if (const std::int64_t least = samples / shards; least > 0) options_.micro_batches_of(least, ranks);  // may refuse the smaller shards
    return options_.micro_batches_of((samples + shards - 1) / shards, ranks);
  }
  const char* micro_batch_option() const override { return "microbatches"; }
  std::string cut(Purpose purpose, std::int64_t micro_batches) const override {
    return purpose == Purpose::train ? fmt::format("{}-{}", to_string(options_.schedule), micro_batches) : std::to_string(micro_batches);
  }

  bool splits_model() const override { return true; }
  /// A stage computes its pieces again.
  models::RecomputedParts recomputed_by_model(models::RecomputedParts) const override { return models::RecomputedParts::none; }
  const char* normalised_over(bool) const override { return "a micro-batch"; }
  std::unique_ptr<RankModel> model(Session& session, Job& job, train::Task& task, ModelUse use) const override {
    return std::make_unique<StageModel>(session, job, task, options_.plan(session, *job.communication(), task, use.shard, means_of(use)));
  }

 private:
  PipelineOptions options_;
  std::string sums_option_;  // one that was given and is about sums over copies; empty: none
};

std::shared_ptr<const Strategy> make_pipeline(const Style& style, const po::variables_map& v, const ParallelOptions& common) {
  if (common.sync_bn)
    throw UsageError(
        "--sync-bn: it is given with --parallel pipeline, whose batch statistics are those of a micro-batch; accepted: --freeze-norm, or --microbatches 1");
  if (common.balances) throw UsageError("--balance: auto is given with --parallel pipeline, which takes rates into account where it cuts; accepted: even");
  refuse_top_k(common, style);
  refuse_given(v, std::array{"accumulate", "no-sync"}, "with --parallel pipeline; accepted: --microbatches, which cuts a batch");
  refuse_given(v, std::array{"sparse-embeddings"}, "with --parallel pipeline; accepted: no pipeline");
  return std::make_shared<PipelineStrategy>(style, v);
}

}  // namespace

extern const Style kPipeline{
    .name = "pipeline",
    .about = "the model is cut into stages, one a rank, or one a device of this process",
    .in_processes = true,
    .in_threads = true,
    .add_options = add_pipeline_options,
    .make = make_pipeline,
};

}  // namespace gemel::cli
