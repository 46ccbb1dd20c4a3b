#include "frontends/cli/run/train_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "datasets/loading/shard.h"
#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/numbers.h"
#include "frontends/cli/job/pipeline_plan.h"
#include "frontends/cli/options/model_options.h"
#include "frontends/cli/options/train_identity.h"
#include "frontends/cli/run/joined_trace.h"
#include "frontends/cli/run/planned_step.h"
#include "frontends/cli/system/console.h"
#include "frontends/cli/system/interrupt.h"
#include "frontends/cli/system/units.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/state/state_dict.h"

namespace gemel::cli {
namespace {

/// ", accuracy 0.9312"
std::string text_of(const std::vector<train::Metric>& metrics) {
  std::string out;
  for (const train::Metric& m : metrics) out += fmt::format(", {} {:.4f}", m.name, m.value);
  return out;
}

TrainOptions options_of_rank(TrainOptions o, const Job& job) {
  o.common = of_rank(o.common, job);
  return o;
}

Json about(const TrainOptions& o, const Job& job) {
  Json out{{"spec", o.spec}};
  if (!o.parallel.style.empty()) out.update({{"ranks", job.size()}, {"parallel", o.parallel.style}});
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
    scope_.open_device();
    const train::Trainer::End end = trained();
    if (data_parallel_) add_communication(scope_, data_parallel_->reducer().take_spans());
    if (pipeline_) add_communication(scope_, pipeline_->take_spans());
    join_traces(scope_, job_);
    if (end != train::Trainer::End::interrupted) save_weights();
    if (horovod_) horovod_->shutdown();  // here, where an error that it meets is told: the weights are saved then
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
    return trainer_->run();
  } catch (const MemoryError& e) {
    const auto stages = options_.parallel.style.empty() ? stages_that_would_do() : std::nullopt;
    if (!stages) throw;
    throw MemoryError(fmt::format("{}; --parallel pipeline with {} stages on as many devices of this size, and --microbatches {}, would do", e.what(), *stages,
                                  kHintMicroBatches));
  }
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
  options_.parallel.check_ranks(options_.batch_size, job_.size());
  if (work_->train_data().size() < copies())
    throw UsageError(fmt::format("train: {} {} share {} samples; accepted: one a {} or more", copies(),
                                 options_.parallel.pipeline ? "copies of the pipeline" : "ranks", work_->train_data().size(),
                                 options_.parallel.pipeline ? "copy" : "rank"));
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
  std::vector<std::int64_t> out{std::min(options_.batch_size, samples)};
  if (rest != 0 && rest != samples && !(options_.steps && options_.steps < loader_->batches())) out.push_back(rest);
  return out;
}

/// As it is trained, without memory.
std::unique_ptr<nn::Module> TrainRun::untouched_model() const {
  auto model = work_->model();
  if (options_.freeze_norm) model->freeze_norm();
  return model;
}

/// A default that the model would decline is none.
void TrainRun::choose_micro_batches() {
  if (!options_.parallel.pipeline) return;
  const auto accepts = [this](std::int64_t samples) {
    const auto model = untouched_model();
    return trains_on(*work_->task(*model), work_->batch(samples));
  };
  PipelineOptions& pipeline = *options_.parallel.pipeline;
  pipeline.micro_batches = micro_batches_for(pipeline, job_.size(), shards_of(batch_sizes(), copies()), accepts);
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
    throw ShapeError(fmt::format(
        "train: {}, {} of {} samples{}: {}; accepted: another --batch-size or --limit{}", which, samples, work_->train_data().size(),
        parts > 1 ? fmt::format(" in {} micro-batches, the least of {}", parts, least) : "", e.what(),
        parts > 1 ? fmt::format(", fewer micro-batches (--{}), or --freeze-norm", options_.parallel.pipeline ? "microbatches" : "accumulate") : ""));
  }
}

void TrainRun::load_data() {
  work_ = options_.open();
  datasets::LoaderOptions loader;
  loader.batch_size = options_.batch_size;
  loader.shuffle = options_.shuffle;
  loader.augment = options_.augment;
  loader.seed = options_.common.seed;
  loader.workers = static_cast<int>(options_.workers);
  if (options_.parallel.balances) loader.prefetch = std::max(loader.workers, 1);  // what is made ahead keeps the shares that it was made with
  loader.rank = copy();
  loader.ranks = copies();
  loader.micro_batches = options_.parallel.pipeline ? 1 : options_.accumulate;  // a pipeline cuts by itself
  loader.by_length = options_.by_length;
  loader_ = std::make_unique<datasets::Loader>(work_->train_data(), loader);
  datasets::LoaderOptions in_order = datasets::in_file_order(options_.batch_size);
  in_order.rank = copy();
  in_order.ranks = copies();
  if (const datasets::Dataset* data = work_->validation_data()) validation_ = std::make_unique<datasets::Loader>(*data, in_order);
}

/// Statistics of shards would change with the shares, and with them what the job computes.
void TrainRun::normalise_over_batch_where_shares_vary() {
  ParallelOptions& parallel = options_.parallel;
  if (!parallel.balances || parallel.sync_bn || options_.freeze_norm || options_.freeze_backbone) return;
  if (!has_batch_statistics(*work_->model())) return;
  parallel.sync_bn = true;
  cli::say("balance: {} has batch statistics, which are taken over the whole batch (--sync-bn)\n", options_.model);
}

std::optional<distributed::Balancing> TrainRun::balancing() {
  if (!options_.parallel.balances) return std::nullopt;
  const std::int64_t batch = std::min(options_.batch_size, work_->train_data().size()), micro_batch = batch / std::min(options_.accumulate, batch);
  const std::int64_t one_in_each = (batch + micro_batch - 1) / micro_batch;
  if (options_.parallel.sync_bn && one_in_each * job_.size() > batch)
    throw UsageError(
        fmt::format("--balance: batch statistics take a sample of each of {} ranks in each micro-batch of {}, which leaves none to share out by rate; "
                    "accepted: even, or another --batch-size or --accumulate",
                    job_.size(), micro_batch));
  return distributed::Balancing{.batch = batch,
                                .limits = {.least = options_.parallel.sync_bn ? one_in_each : 0, .of_trial = one_in_each},
                                .changed = [this](const parallel::Balance& balance) {
                                  loader_->share(balance.shares());
                                  tell_shares(balance);
                                }};
}

/// "balance: 43, 21 of 64 samples (120.1, 59.8 samples/s)"
void TrainRun::tell_shares(const parallel::Balance& balance) const {
  const std::vector<std::int64_t>& shares = balance.shares();
  std::vector<std::string> rates;
  double longest = 0;
  for (int r = 0; r < job_.size(); ++r) {
    const double seconds = balance.seconds_per_sample(r);
    rates.push_back(seconds > 0 ? fmt::format("{:.1f}", 1 / seconds) : "not measured");
    longest = std::max(longest, seconds * static_cast<double>(shares[static_cast<std::size_t>(r)]));
  }
  cli::say("balance: {} of {} samples ({} samples/s)\n", fmt::join(shares, ", "), std::accumulate(shares.begin(), shares.end(), std::int64_t{0}),
           fmt::join(rates, ", "));
  for (int r = 0; r < job_.size(); ++r)
    if (shares[static_cast<std::size_t>(r)] == 0)
      cli::say("balance: rank {} ({}) gets no samples: it takes {:.3f} s for one, and a step is {:.3f} s without it\n", r,
               job_.communication()->placement().hosts[static_cast<std::size_t>(r)], balance.seconds_per_sample(r), longest);
}

void TrainRun::build_model() {
  Session& session = scope_.session();
  model_ = work_->model({options_.dropout, options_.parallel.pipeline ? models::RecomputedParts::none : options_.recompute});
  const std::int64_t batch = std::min(options_.batch_size, work_->train_data().size());
  if (options_.sparse_embeddings && !nn::embed_by_rows(*model_))
    throw UsageError(fmt::format("--sparse-embeddings: {} has no embeddings that are in nothing but lookups; accepted: a model that has", options_.model));
  if (options_.freeze_backbone) model_->freeze_backbone();
  if (options_.freeze_norm) model_->freeze_norm();
  task_ = work_->task(*model_);
  if (options_.parallel.pipeline) return build_stage(work_->batch(batch));
  if (!options_.weights.empty()) tell_loaded(nn::load_weights(*model_, session, options_.weights, nn::Mismatch::keep_output_layers));
  model_->materialise(session);
  const Specs inputs = work_->batch(batch);
  if (job_.communication()) {
    horovod_ = job_.begin_cycles();
    data_parallel_.emplace(
        session, *job_.communication(),
        options_.parallel.data_parallel(
            {.check_finite = options_.detect_anomaly, .keeps_spans = !options_.common.profile.empty(), .horovod = horovod_.get(), .balance = balancing()}));
    data_parallel_->pack(*task_, inputs);
  } else {
    train::pack_parameters(session, *task_, inputs);
  }
  optimizer_ = options_.optimizer.make(optim::no_decay_on_rows(work_->groups(model_->parameters())));
  if (data_parallel_) data_parallel_->attach(*model_, *optimizer_);
}

void TrainRun::tell_loaded(const nn::Loaded& loaded) const {
  say_prefix(loaded);
  for (const std::string& name : loaded.fresh) cli::say("weights: {} starts afresh, the file has none of its shape\n", name);
  if (!loaded.left_aside.empty()) cli::say("weights: left aside, as the model has no such tensors: {}\n", fmt::join(loaded.left_aside, ", "));
}

void TrainRun::make_trainer() {
  if (options_.detect_anomaly) anomaly_.emplace(scope_.session());
  const train::TrainerOptions options{
      .epochs = options_.epochs,
      .steps = options_.steps,
      .eval_every = options_.eval_every,
      .rate = options_.optimizer.rate,
      .clip_norm = options_.clip_norm,
      .schedule = options_.schedule,
      .warmup = options_.warmup,
      .checkpoint_dir = options_.checkpoint_dir,
      .checkpoint_every = options_.checkpoint_every,
      .model_name = options_.model,
      .step = {options_.frontend, options_.common.passes, micro_batches(std::min(options_.batch_size, work_->train_data().size()))}};
  train::Ranks* const ranks = pipeline_ ? static_cast<train::Ranks*>(&*pipeline_) : data_parallel_ ? &*data_parallel_ : nullptr;
  trainer_.emplace(train::Run{scope_.session(), *task_, *optimizer_, *loader_, validation_.get(), job_.rank() == 0 ? &scope_.log() : nullptr, this, ranks,
                              pipeline_ ? &*pipeline_ : nullptr},
                   options, identity_of(options_, *work_));
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

void TrainRun::tell_start() {
  scope_.summarise(options_.model, *model_);
  scope_.summary()["steps"] = trainer_->state().step;
  if (job_.communication()) tell_ranks();
  cli::say("model: {}, {} parameters; data: {}; {} front end\n", options_.model, model_->parameter_elements(), work_->extent(),
           train::to_string(options_.frontend));
}

void TrainRun::tell_ranks() {
  parallel::CommunicationThread& communication = *job_.communication();
  const opencl::DeviceProfile& device = scope_.device().profile();
  const std::int64_t share = datasets::part_of(std::min(options_.batch_size, work_->train_data().size()), copy(), copies()).count;
  nlohmann::ordered_json mine{{"host", communication.placement().hosts[static_cast<std::size_t>(job_.rank())]},
                              {"device", device.name},
                              {"platform", device.platform},
                              {"units", device.compute_units},
                              {"share", share}};
  if (pipeline_) mine["stage"] = pipeline_->place().stage();
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const std::string& text : distributed::texts_of_ranks(communication, mine.dump())) all.push_back(nlohmann::ordered_json::parse(text));
  if (pipeline_) return scope_.log().tell_about({{"each_rank", all}});
  const std::string collective = data_parallel_->collective();
  scope_.log().tell_about({{"each_rank", all}, {"collective", collective}});
  cli::say("{}: {} ranks; gradients: {}\n", options_.parallel.style, job_.size(), collective);
  if (options_.parallel.horovod)
    if (const auto unread = parallel::horovod::unread_variables(); !unread.empty())
      cli::say("horovod: {} in the environment: nothing reads it here\n", fmt::join(unread, ", "));
}

// ---- what the trainer tells

void TrainRun::say(const std::string& line) { cli::say("{}\n", line); }

void TrainRun::epoch_begins(std::int64_t epoch, std::int64_t here, std::int64_t later) {
  scope_.times().take_busy_seconds();
  progress_.emplace(fmt::format("epoch {}{}", epoch, options_.steps ? "" : fmt::format("/{}", options_.epochs)), here, later);
}

void TrainRun::step_begins() {
  scope_.times().begin_step();
  job_.progress(fmt::format("step {}", trainer_->state().step + 1));
}

void TrainRun::step_done(const train::StepReport& r) {
  scope_.summary()["steps"] = r.step;
  scope_.summary()["samples_ms"].push_back(r.milliseconds);
  scope_.times().collect();
  if (progress_) progress_->show(r.batch + 1, r.loss, r.samples);
}

void TrainRun::saves(std::int64_t step) { scope_.trace_checkpoint(step, options_.checkpoint_dir); }

void TrainRun::epoch_trained() {
  busy_seconds_ = scope_.times().take_busy_seconds();
  progress_.reset();
}

void TrainRun::epoch_done(const train::EpochReport& r, nlohmann::ordered_json& line) {
  const double busy = std::min(1.0, busy_seconds_ / std::max(r.seconds, 1e-9));
  const std::int64_t peak = scope_.device().memory().statistics().peak_in_use, planned = trainer_->step().arena().bytes;
  line.update({{"device_busy", busy}, {"peak_device_bytes", peak}});
  const std::string validation = r.validation_loss ? fmt::format(", validation loss {:.4f}{}", *r.validation_loss, text_of(r.validation_metrics)) : "";
  if (speaks())
    fmt::print("epoch {}: {:.1f} s, loss {:.4f}{}{}; {:.1f} samples/s, device busy {:.0f} %, peak {:.1f} MiB{}\n", r.epoch, r.seconds, r.loss,
               text_of(r.metrics), validation, r.samples_per_s, 100 * busy, mebibytes(peak),
               planned ? fmt::format(", of that planned {:.1f} MiB", mebibytes(planned)) : "");
  std::fflush(stdout);
  scope_.summary()["last_epoch"] = line;
}

/// All ranks of a pipeline come here; one of them met it first.
std::string TrainRun::why_not_finite() {
  if (!anomaly_) return "; --detect-anomaly names the operator that made it";
  std::string first = anomaly_->first().value_or("");
  if (pipeline_) {
    const std::vector<std::string> all = distributed::texts_of_ranks(*job_.communication(), first);
    const auto found = std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
    first = found == all.end() ? "" : fmt::format("{} on rank {}", *found, found - all.begin());
  }
  return first.empty() ? "; no operator made a NaN: numbers grew too large, or a weight or a sample has one" : "; the first operator that made a NaN: " + first;
}

bool TrainRun::interrupted() { return InterruptGuard::interrupted(); }

}  // namespace gemel::cli
