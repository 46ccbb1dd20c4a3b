#include "frontends/cli/train_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/file.h"
#include "frontends/cli/interrupt.h"
#include "frontends/cli/planned_step.h"
#include "frontends/cli/say.h"
#include "frontends/cli/units.h"
#include "frontends/models/models.h"
#include "frontends/nn/state_dict.h"

namespace gemel::cli {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TrainRun::TrainRun(TrainOptions options, const std::vector<std::string>& arguments)
    : options_(std::move(options)), scope_(options_.common, "train", arguments) {}

int TrainRun::run() {
  return scope_.carry_out([this] {
    check_outputs();
    load_data();
    check_last_batch();
    scope_.open_device();
    build_model();
    identity_ = identity_of(options_, *data_.train, scope_.device().profile());
    if (options_.detect_anomaly) anomaly_.emplace(scope_.session());
    resume();
    log_start();
    while (!done()) train_epoch();
    if (!options_.save.empty()) nn::save_weights(*model_, options_.save);
  });
}

void TrainRun::check_outputs() {
  if (!options_.save.empty()) check_can_write(options_.save);
  const std::string& profile = options_.common.profile;
  if (!profile.empty() && std::filesystem::weakly_canonical(profile) == std::filesystem::weakly_canonical(options_.save))
    throw UsageError(fmt::format("--profile: '{}' is given for --save too; accepted: another file", profile));
  if (options_.checkpoint_dir.empty()) return;
  prepare_checkpoints(options_.checkpoint_dir);
  checkpoints_.path = options_.checkpoint_dir;
  if (options_.resume != "auto") checkpoints_.of_others = checkpoints_in(checkpoints_.path);
}

/// Batch normalisation, for one, takes more than one value a channel: better told now than at the end of an epoch.
void TrainRun::check_last_batch() const {
  const std::int64_t samples = data_.train->size(), rest = samples % options_.batch_size;
  if (rest == 0 || rest == samples || (options_.steps && options_.steps < loader_->batches())) return;
  const Shape& picture = data_.train->shape();
  const auto model = models::make(options_.model, {.classes = data_.train->classes(), .channels = picture[0]});
  const auto host = Session::reference();
  try {
    capture_step(*host, *model, f32({rest, picture[1], picture[2], picture[0]}), Work::train);
  } catch (const ShapeError& e) {
    throw ShapeError(fmt::format("train: the last batch of an epoch, {} of {} samples: {}; accepted: another --batch-size or --limit",
                                 rest, samples, e.what()));
  }
}

void TrainRun::load_data() {
  data_ = datasets::open_dataset(options_.dataset);
  datasets::LoaderOptions loader;
  loader.batch_size = options_.batch_size;
  loader.shuffle = options_.shuffle;
  loader.augment = options_.augment;
  loader.seed = options_.common.seed;
  loader_ = std::make_unique<datasets::Loader>(*data_.train, loader);
}

void TrainRun::build_model() {
  Session& session = scope_.session();
  model_ = models::make(options_.model, {.classes = data_.train->classes(), .dropout = options_.dropout, .channels = data_.train->shape()[0],
                                           .recompute = options_.recompute});
  if (!options_.weights.empty())
    for (const std::string& name : nn::load_weights(*model_, session, options_.weights, nn::Mismatch::keep_output_layers))
      say("weights: {} starts afresh, its shape differs from the file's\n", name);
  model_->materialise(session);
  if (options_.freeze_backbone) model_->freeze_backbone();
  optimizer_ = optim::make(options_.optimizer_name, optim::all_in_one(model_->parameters()), options_.optimizer);
  training_ = std::make_unique<Training>(session, *model_, optimizer_.get(), options_.frontend, options_.common.passes, options_.clip_norm);
}

void TrainRun::resume() {
  if (options_.resume.empty()) return;
  const auto file = options_.resume == "auto" ? newest_checkpoint(options_.checkpoint_dir) : std::optional(std::filesystem::path(options_.resume));
  if (!file) {
    scope_.log().go_on_after(0, 0);
    say("resume: no checkpoint in {}, starting from the beginning\n", options_.checkpoint_dir);
    return;
  }
  const Restored restored = load_checkpoint(*file, *model_, *optimizer_, scope_.session(), identity_);
  for (const std::string& line : restored.warnings) say("resume: warning: {}\n", line);
  state_ = restored.state;
  scope_.log().go_on_after(state_.step, state_.epoch);
  resumed_from_ = file->string();
  say("resume: going on after step {} from {}{}\n", state_.step, file->string(), options_.weights.empty() ? "" : ", whose weights stand in place of --weights");
}

void TrainRun::log_start() {
  scope_.log_start(options_.model, *model_, resumed_from_ ? nlohmann::ordered_json{{"resumed_from", *resumed_from_}} : nlohmann::ordered_json());
  scope_.summary()["steps"] = state_.step;
  say("model: {}, {} parameters; data: {} samples, {} classes; {} front end\n", options_.model, model_->parameter_elements(),
             data_.train->size(), data_.train->classes(), to_string(options_.frontend));
}

bool TrainRun::done() const { return options_.steps ? state_.step >= options_.steps : state_.epoch >= options_.epochs; }

double TrainRun::rate_now() const {
  const optim::Progress progress = options_.steps ? optim::Progress{state_.epoch, state_.step, options_.steps}
                                                  : optim::Progress{state_.epoch, state_.epoch, options_.epochs};
  return optim::rate_at(options_.schedule, options_.rate, progress);
}

/// An epoch, or the part of it that an interrupt or the last step leaves.
void TrainRun::train_epoch() {
  const auto begin = last_report_ = Clock::now();
  const std::int64_t samples_before = state_.samples;  // where the run goes on in the middle of an epoch
  scope_.times().take_busy_seconds();
  train_batches();
  bool whole = state_.batch == loader_->batches();
  if (whole || !InterruptGuard::interrupted()) {
    try {
      end_epoch(seconds_since(begin), state_.samples - samples_before);
    } catch (const Interrupted&) {  // in the validation: what is saved stands before it
      whole = false;
    }
  }
  if (whole) state_ = {state_.step, state_.epoch + 1, 0, 0, 0, 0};
  const bool interrupted = InterruptGuard::interrupted();
  if (!options_.checkpoint_dir.empty()) save_state();
  if (interrupted)
    say("interrupted after step {}: {}\n", state_.step,
        options_.checkpoint_dir.empty() ? "nothing was saved, there is no --checkpoint-dir" : "saved in " + options_.checkpoint_dir);
  if (interrupted) throw Interrupted();
}

/// From where the run stands to the end of the epoch, or of the run, or to an interrupt.
void TrainRun::train_batches() {
  const std::string of = options_.steps ? "" : fmt::format("/{}", options_.epochs);
  const std::int64_t here = options_.steps ? std::min(loader_->batches(), state_.batch + options_.steps - state_.step) : loader_->batches();
  const std::int64_t later = options_.steps ? options_.steps - state_.step - (here - state_.batch)
                                            : (options_.epochs - state_.epoch - 1) * loader_->batches();
  progress_.emplace(fmt::format("epoch {}{}", state_.epoch + 1, of), here, later);
  loader_->start(state_.epoch, state_.batch);
  while (auto batch = loader_->next()) {
    train_batch(*batch);
    if (InterruptGuard::interrupted() || state_.step == options_.steps || state_.batch == loader_->batches()) break;
    if (options_.checkpoint_every && state_.step % options_.checkpoint_every == 0) save_state();
  }
  settle(0);
  progress_.reset();
}

void TrainRun::train_batch(const datasets::Batch& batch) {
  const double rate = rate_now();
  scope_.times().begin_step();
  ++state_.step;
  pending_.push_back({training_->train(batch, rate, state_.step), state_.step, batch.index, rate});
  state_.batch = batch.index + 1;
  settle(1);  // the step just enqueued is not waited for
}

void TrainRun::settle(std::size_t leave) {
  while (pending_.size() > leave) {
    Pending p = std::move(pending_.front());
    pending_.pop_front();
    const StepResult result = p.result.get();
    if (!std::isfinite(result.loss)) fail_on_loss(fmt::format("loss of step {}", p.step), result.loss);
    report(p, result);
  }
}

void TrainRun::fail_on_loss(const std::string& which, double loss) const {
  std::string what = fmt::format("train: the {} is {}", which, loss);
  if (anomaly_ && anomaly_->first()) what += "; the first operator that made a NaN: " + *anomaly_->first();
  else if (!anomaly_) what += "; --detect-anomaly names the operator that made it";
  throw Error(what);
}

void TrainRun::report(const Pending& p, const StepResult& result) {
  const auto samples = static_cast<std::int64_t>(result.labels.size());
  state_.loss_sum += result.loss * static_cast<double>(samples);
  state_.correct += result.correct();
  state_.samples += samples;
  const double speed = static_cast<double>(samples) / std::max(1e-9, seconds_since(last_report_));
  last_report_ = Clock::now();
  RunLog& log = scope_.log();
  log.event({{"event", "step"}, {"step", p.step}, {"epoch", state_.epoch + 1}, {"loss", result.loss}, {"lr", p.rate}, {"samples_per_s", speed}});
  log.scalar("train/loss", result.loss, p.step);
  log.scalar("train/lr", p.rate, p.step);
  scope_.summary()["steps"] = p.step;
  scope_.times().collect();
  progress_->show(p.batch + 1, result.loss, samples);
}

/// Adds to the epoch's line. @return what a person is told of it
std::string TrainRun::validate(nlohmann::ordered_json& line) {
  const Totals v = evaluate(*training_, *data_.validation, options_.batch_size, [this] {
    scope_.times().collect();
    if (InterruptGuard::interrupted()) throw Interrupted();
  });
  if (!std::isfinite(v.loss)) fail_on_loss(fmt::format("validation loss after step {}", state_.step), v.mean_loss());
  line["val_loss"] = v.mean_loss();
  line["val_accuracy"] = v.accuracy();
  scope_.log().scalar("validation/loss", v.mean_loss(), state_.step);
  scope_.log().scalar("validation/accuracy", v.accuracy(), state_.step);
  return fmt::format(", validation loss {:.4f}, accuracy {:.4f}", v.mean_loss(), v.accuracy());
}

/// @param seconds, samples  what this process spent and trained; the means are over the whole epoch
void TrainRun::end_epoch(double seconds, std::int64_t samples) {
  const double busy = std::min(1.0, scope_.times().take_busy_seconds() / std::max(seconds, 1e-9));
  const double all = static_cast<double>(std::max<std::int64_t>(1, state_.samples));
  const double loss = state_.loss_sum / all, accuracy = static_cast<double>(state_.correct) / all;
  const double speed = static_cast<double>(samples) / std::max(seconds, 1e-9);
  nlohmann::ordered_json line{{"event", "epoch"}, {"epoch", state_.epoch + 1}, {"seconds", seconds}, {"train_loss", loss}, {"train_accuracy", accuracy}};
  std::string validation;
  if (data_.validation && options_.eval_every && (state_.epoch + 1) % options_.eval_every == 0) validation = validate(line);
  const std::int64_t peak = scope_.device().memory().statistics().peak_in_use, planned = training_->arena().bytes;
  line.update({{"samples_per_s", speed}, {"device_busy", busy}, {"peak_device_bytes", peak}});
  scope_.log().event(line);
  scope_.log().scalar("train/accuracy", accuracy, state_.step);
  say("epoch {}: {:.1f} s, loss {:.4f}, accuracy {:.4f}{}; {:.1f} samples/s, device busy {:.0f} %, peak {:.1f} MiB{}\n",
             state_.epoch + 1, seconds, loss, accuracy, validation, speed, 100 * busy, mebibytes(peak),
             planned ? fmt::format(", of that planned {:.1f} MiB", mebibytes(planned)) : "");
  scope_.summary()["last_epoch"] = std::move(line);
}

void TrainRun::save_state() {
  settle(0);
  save_checkpoint(checkpoints_, *model_, *optimizer_, state_, identity_);
}

}  // namespace gemel::cli
