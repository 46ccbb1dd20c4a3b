#include "frontends/cli/run/train_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/numbers.h"
#include "engine/files/safetensors.h"
#include "frontends/cli/options/train_identity.h"
#include "frontends/cli/run/fallback_write.h"
#include "frontends/cli/run/joined_trace.h"
#include "frontends/cli/run/planned_step.h"
#include "frontends/cli/system/console.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/state/finite_check.h"
#include "frontends/nn/state/state_dict.h"

namespace gemel::cli {
namespace {

TrainOptions options_of_rank(TrainOptions o, const Job& job) {
  o.common = of_rank(o.common, job);
  return o;
}

Json about(const TrainOptions& o, Job& job) {
  Json out{{"spec", o.spec}};
  if (job.communication()) out.update({{"ranks", job.size()}, {"parallel", job.strategy().name()}});
  if (const Launched launched = Launched::here(); launched.lost) out.update({{"restart", launched.restart}, {"lost", launched.lost->json()}});
  return out;
}

}  // namespace

TrainRun::TrainRun(TrainOptions options, const std::vector<std::string>& arguments, Job& job)
    : job_(job), options_(options_of_rank(std::move(options), job)), scope_(options_.common, "train", arguments, about(options_, job)) {}

int TrainRun::run() {
  return scope_.carry_out([this] {
    check_outputs();
    load_data();
    check_warmup();
    normalise_over_batch_where_shares_vary();
    check_job();
    choose_micro_batches();
    check_last_batch();
    scope_.open_device(job_);
    const train::Trainer::End end = trained();
    add_communication(scope_, shared_->take_spans());
    join_traces(scope_, job_);
    if (end != train::Trainer::End::interrupted) save_weights();
    shared_->end();  // the weights are saved by now
    if (end == train::Trainer::End::interrupted) {
      cli::say("interrupted after step {}: {}\n", trainer_->state().step,
               options_.checkpoint_dir.empty() ? "nothing was saved, there is no --checkpoint-dir" : "saved in " + options_.checkpoint_dir);
      throw Interrupted();
    }
  });
}

train::Trainer::End TrainRun::trained() {
  try {
    build_model();
    make_trainer();
    resume();
    tell_start();
    const struct UntilTheEnd {
      std::optional<UsageRecord>& usage;
      ~UntilTheEnd() { usage.reset(); }
    } recording{usage_};
    const RankModel::Help help = shared_->help();
    if (!help) return trainer_->run();
    record_usage();
    help(*loader_, validation_.get());
    return train::Trainer::End::done;
  } catch (const MemoryError& e) {
    std::string text = e.what();
    for (const std::string& more : {what_holds_less(), where_there_is_room()})
      if (!more.empty()) text += "; " + more;
    throw MemoryError(text);
  }
}

/// Options that were not given and take less memory for the same model and batch.
std::string TrainRun::what_holds_less() const {
  const auto has_blocks = [&](const domains::Domain* d) { return std::ranges::count(d->models(), options_.model) > 0 && d->has_blocks(options_.model); };
  std::vector<std::string> options;
  if (options_.recompute == models::RecomputedParts::none && std::ranges::any_of(domains::all(), has_blocks)) options.emplace_back("--recompute blocks");
  if (options_.accumulate == 1 && !strategy().splits_model() && batch_samples() > copies()) options.emplace_back("--accumulate 2");
  return options.empty() ? "" : fmt::format("{} takes less", fmt::join(options, " or "));
}

std::string TrainRun::where_there_is_room() const {
  const auto model = untouched_model();
  if (options_.freeze_backbone) model->freeze_backbone();
  return strategy().where_there_is_room(*work_->task(*model), model_use());
}

void TrainRun::check_outputs() const {
  if (!options_.save.empty() && job_.rank() == 0) check_can_write(options_.save);
  if (!options_.checkpoint_dir.empty() && job_.rank() == 0) train::prepare_checkpoints(options_.checkpoint_dir);
}

/// That all ranks run the same, and each can have a sample.
void TrainRun::check_job() const {
  if (!job_.communication()) return;
  std::vector<distributed::Setting> settings = settings_of(options_.spec);
  settings.push_back({"samples", std::to_string(work_->train_data().size())});
  settings.push_back({"contents", first_and_last(work_->train_data())});
  for (const train::IdentityPart& part : work_->identity()) settings.push_back({part.name + " of the data", part.value});
  distributed::require_same(*job_.communication(), settings);
  strategy().check(Purpose::train, options_.batch_size, job_.size());
  if (work_->train_data().size() < copies())
    throw UsageError(fmt::format("train: {} {} share {} samples; accepted: one a {} or more", copies(), strategy().sharer().many, work_->train_data().size(),
                                 strategy().sharer().one));
}

void TrainRun::check_warmup() const {
  const std::int64_t warmup = options_.warmup.steps, batches = loader_->batches();
  if (options_.steps ? warmup <= options_.steps : ceil_div(warmup, batches) <= options_.epochs) return;
  throw UsageError(fmt::format("--warmup: {} steps of a run of {}; accepted: at most all of them, or a share of the run with a point, 0.0 to 1.0", warmup,
                               options_.steps ? options_.steps : options_.epochs * batches));
}

/// Samples of a batch of all ranks, and of the last one of an epoch where it has fewer and the run comes to it.
std::vector<std::int64_t> TrainRun::batch_sizes() const {
  const std::int64_t samples = work_->train_data().size(), rest = samples % options_.batch_size;
  std::vector<std::int64_t> out{batch_samples()};
  if (rest != 0 && rest != samples && !(options_.steps && options_.steps < loader_->batches())) out.push_back(rest);
  return out;
}

/// As it is trained, without memory.
std::unique_ptr<nn::Module> TrainRun::untouched_model() const {
  auto model = work_->model();
  if (options_.freeze_norm) model->freeze_norm();
  return model;
}

void TrainRun::choose_micro_batches() {
  const auto accepts = [this](std::int64_t samples) {
    const auto model = untouched_model();
    return trains_on(*work_->task(*model), work_->batch(samples));
  };
  options_.parallel.strategy = strategy().fitted(job_.size(), batch_sizes(), accepts);
}

/// Batch normalisation, for one, takes more than one value a channel: better told now than at the end of an epoch.
void TrainRun::check_last_batch() const {
  const std::vector<std::int64_t> sizes = batch_sizes();
  const bool cut = micro_batches(options_.batch_size) > 1 || copies() > 1;
  if (cut) check_batch(sizes.front(), "the batch");
  if (sizes.size() > 1) check_batch(sizes.back(), "the last batch of an epoch");
}

/// @param samples  of a batch, whose smallest micro-batch is tried
void TrainRun::check_batch(std::int64_t samples, const char* which) const {
  const std::int64_t parts = std::min(micro_batches(samples), samples), whole = samples / parts;
  if (options_.parallel.sync_bn && whole < job_.size())
    throw UsageError(fmt::format("--sync-bn: {}, {} of {} samples, leaves some of {} ranks none{}; accepted: another --batch-size or --limit", which, samples,
                                 work_->train_data().size(), job_.size(), parts > 1 ? " in a micro-batch" : ""));
  const std::int64_t least = options_.parallel.sync_bn ? whole : std::max<std::int64_t>(1, whole / copies());  // no empty shard
  const auto model = untouched_model();
  const auto host = Session::reference();
  try {
    capture_step(*host, *work_->task(*model), work_->batch(least), Work::train);
  } catch (const ShapeError& e) {
    throw ShapeError(fmt::format("train: {}, {} of {} samples{}: {}; accepted: another --batch-size or --limit{}", which, samples, work_->train_data().size(),
                                 parts > 1 ? fmt::format(" in {} micro-batches, the least of {}", parts, least) : "", e.what(),
                                 parts > 1 ? fmt::format(", fewer micro-batches (--{}), or --freeze-norm", strategy().micro_batch_option()) : ""));
  }
}

void TrainRun::load_data() {
  work_ = options_.open();
  datasets::DataLoaderOptions loader;
  loader.batch_size = options_.batch_size;
  loader.shuffle = options_.shuffle;
  loader.augment = options_.augment;
  loader.seed = options_.common.seed;
  loader.workers = static_cast<int>(options_.workers);
  if (options_.parallel.balances) loader.prefetch = std::max(loader.workers, 1);  // what is made ahead keeps the shares that it was made with
  loader.rank = copy();
  loader.ranks = copies();
  loader.micro_batches = options_.accumulate;
  loader.by_length = options_.by_length;
  loader_ = std::make_unique<datasets::DataLoader>(work_->train_data(), loader);
  datasets::DataLoaderOptions in_order = datasets::in_file_order(options_.batch_size);
  in_order.rank = copy();
  in_order.ranks = copies();
  if (const datasets::Dataset* data = work_->validation_data()) validation_ = std::make_unique<datasets::DataLoader>(*data, in_order);
}

ModelUse TrainRun::model_use() const {
  const std::int64_t samples = batch_samples();
  return {.purpose = Purpose::train,
          .batch = work_->batch(samples),
          .shard = work_->batch(ceil_div(samples, std::int64_t{copies()})),
          .micro_batches = micro_batches(samples),
          .frontend = options_.frontend,
          .passes = options_.common.passes,
          .recompute = options_.recompute,
          .sync_bn = options_.parallel.sync_bn,
          .check_finite = options_.detect_anomaly,
          .keeps_spans = !options_.common.profile.empty(),
          .memory_bytes = scope_.memory_limit(),
          .parameter_copies = options_.optimizer.make()->parameter_copies()};
}

/// Of the run that goes on, if it was of this kind, so that it goes on as it began.
std::optional<std::int64_t> TrainRun::recorded_micro_batches() const {
  if (options_.resume.empty() || job_.rank() != 0) return std::nullopt;
  const FileMetadata recorded = train::metadata_to_resume(options_.resume, options_.checkpoint_dir);
  const auto parts = train::part_in(recorded, train::kMicroBatches);
  if (!parts || train::part_in(recorded, train::kNormalisedOver) != strategy().normalised_over(options_.parallel.sync_bn)) return std::nullopt;
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(parts->data(), parts->data() + parts->size(), out);
  return error == std::errc() && out > 0 && out <= options_.batch_size ? std::optional(out) : std::nullopt;
}

void TrainRun::build_model() {
  Session& session = scope_.session();
  model_ = work_->model({options_.dropout, strategy().recomputed_by_model(options_.recompute)});
  if (options_.sparse_embeddings && !nn::embed_by_rows(*model_))
    throw UsageError(fmt::format("--sparse-embeddings: {} has no embeddings that are in nothing but lookups; accepted: a model that has", options_.model));
  if (options_.freeze_backbone) model_->freeze_backbone();
  if (options_.freeze_norm) model_->freeze_norm();
  task_ = work_->task(*model_);
  if (options_.frontend == Frontend::eager && session.device().profile().builds_ahead()) {
    const auto unbuilt = untouched_model();
    if (options_.freeze_backbone) unbuilt->freeze_backbone();
    const std::int64_t samples = batch_samples();
    build_step(session, *work_->task(*unbuilt), work_->batch(ceil_div(samples, copies() * micro_batches(samples))), Work::train);
  }
  options_.parallel.strategy = strategy().measured(session, job_, *task_, model_use(), recorded_micro_batches());
  ModelUse use = model_use();
  use.balance = balancing();
  use.record = [this](const Json& event) { scope_.log().event(event); };
  shared_ = strategy().model(session, job_, *task_, std::move(use));
  shared_->build([&](nn::Extent extent) {
    if (!options_.weights.empty()) tell_loaded(nn::load_weights(*model_, session, options_.weights, nn::Mismatch::keep_output_layers, extent));
  });
  shared_->attach(options_.optimizer.make(shared_->groups([this](const ParameterSet& mine) { return optim::no_decay_on_rows(work_->groups(mine)); })));
}

/// Those of a last step that went wrong are told, and written nowhere: no later step's loss would tell.
void TrainRun::save_weights() {
  namespace fs = std::filesystem;
  if (options_.save.empty()) return;
  const std::vector<nn::StateEntry> state = shared_->whole_state();
  if (job_.rank() != 0) return;  // of a job's ranks the first writes files
  std::vector<NamedTensor> tensors;
  for (const nn::StateEntry& e : state) tensors.push_back({e.name, e.spec, e.bytes});
  if (const auto wrong = nn::not_finite_in(tensors))
    throw Error(fmt::format("train: {} after step {}: nothing is saved in {}; accepted: a smaller --lr, or --clip-norm", *wrong, trainer_->state().step,
                            options_.save));
  std::error_code none;
  const fs::path others[] = {options_.checkpoint_dir, options_.common.log_dir, fs::current_path(none), fs::temp_directory_path(none)};
  write_with_fallback(options_.save, others, [&](const fs::path& path) { write_safetensors(path, tensors); });
}

void TrainRun::make_trainer() {
  if (options_.detect_anomaly) anomaly_.emplace(scope_.session());
  const train::TrainerOptions options{.epochs = options_.epochs,
                                      .steps = options_.steps,
                                      .eval_every = options_.eval_every,
                                      .rate = options_.optimizer.rate,
                                      .clip_norm = options_.clip_norm,
                                      .schedule = options_.schedule,
                                      .warmup = {options_.warmup.steps * strategy().steps_per_batch(job_.size()), options_.warmup.share},
                                      .checkpoint_dir = options_.checkpoint_dir,
                                      .checkpoint_every = options_.checkpoint_every,
                                      .model_name = options_.model,
                                      .step = {options_.frontend, options_.common.passes, micro_batches(batch_samples())}};
  trainer_.emplace(train::Run{.session = scope_.session(),
                              .task = *task_,
                              .optimizer = shared_->optimizer(),
                              .data = shared_->batches(*loader_, Purpose::train),
                              .validation = validation_ ? &shared_->batches(*validation_, Purpose::evaluate) : nullptr,
                              .log = job_.rank() == 0 ? &scope_.log() : nullptr,
                              .reporter = this,
                              .ranks = &shared_->ranks(),
                              .stepper = &shared_->stepper()},
                   options, identity_of(options_, *work_, job_.size()));
}

void TrainRun::resume() {
  if (options_.resume.empty()) return;
  const auto file = trainer_->resume(options_.resume);
  if (!file) return;
  scope_.go_on_after(trainer_->state().step, file->parent_path());
  cli::say("resume: going on after step {} from {}{}\n", trainer_->state().step, file->string(),
           options_.weights.empty() ? "" : ", whose weights stand in place of --weights");
  if (trainer_->done()) cli::say("resume: the run is at its end: nothing is trained, except with more --{}\n", options_.steps ? "steps" : "epochs");
}

}  // namespace gemel::cli
