#include "frontends/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/files/folder_lock.h"
#include "frontends/train/checkpoint/missing_parts.h"
#include "frontends/train/evaluation.h"

namespace gemel::train {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); }

StepOptions shared_by(StepOptions options, Ranks* ranks) {
  options.ranks = ranks;
  return options;
}

/// Thrown through an evaluation that is interrupted.
struct CutShort {};

}  // namespace

Trainer::Trainer(const Run& run, TrainerOptions options, RunIdentity identity)
    : run_(run),
      ranks_(run.ranks ? *run.ranks : only_),
      options_(std::move(options)),
      identity_(std::move(identity)),
      step_(run.stepper ? *run.stepper : own_step_.emplace(run.session, run.task, &run.optimizer, shared_by(options_.step, run.ranks))) {
  const bool has_batch_size = std::ranges::find(identity_, kBatchSize, &IdentityPart::name) != identity_.end();
  for (const IdentityPart& part : identity_of(run_.session, options_, run_.data))
    if (part.name != kBatches || !has_batch_size) identity_.push_back(part);
  if (!run_.reporter) run_.reporter = &silent_;
  if (options_.schedule == optim::Schedule::linear) rate_now();  // refuses a warm-up longer than the run
  if (options_.clip_norm > 0) step_.clip_norm(options_.clip_norm);
  if (options_.checkpoint_dir.empty() || ranks_.rank() != 0) return;
  prepare_checkpoints(options_.checkpoint_dir);
  checkpoints_ = begin_in(options_.checkpoint_dir);
}

std::optional<std::filesystem::path> Trainer::resume(const std::string& from) {
  const auto file = ranks_.rank() == 0 ? read_checkpoint(from) : std::nullopt;
  ranks_.join_state(run_.task.module(), run_.optimizer, state_);
  state_.ranks = {};
  return file;
}

std::optional<std::filesystem::path> Trainer::read_checkpoint(const std::string& from) {
  const auto tell = [this](const std::string& line) { run_.reporter->say(line); };
  const auto file = from == "auto" ? newest_checkpoint(options_.checkpoint_dir, tell) : std::optional(std::filesystem::path(from));
  if (!file) {
    if (run_.log) run_.log->go_on_after(0, 0);
    tell(fmt::format("resume: no checkpoint in {}, starting from the beginning", options_.checkpoint_dir.string()));
    return std::nullopt;
  }
  const Restored restored = load_checkpoint(*file, run_.task.module(), run_.optimizer, run_.session, identity_);  // what is refused there tells more
  if (const std::int64_t batch = restored.state.batch; batch > run_.data.batches())
    throw DataError(fmt::format("checkpoint: {} has '{}' for 'batch' in its metadata; accepted: whole numbers, 0..{}, of an epoch's batches", file->string(),
                                batch, run_.data.batches()));
  missing_parts_in(restored.state.ranks, ranks_.parts_of_batch());  // refuses those that nobody would train
  for (const std::string& line : restored.warnings) tell("resume: warning: " + line);
  state_ = restored.state;
  resumed_from_ = *file;
  if (from == "auto") checkpoints_ = go_on_in(options_.checkpoint_dir, *file);
  if (run_.log) run_.log->go_on_after(state_.step, state_.epoch);
  return file;
}

bool Trainer::done() const { return options_.steps ? state_.step >= options_.steps : state_.epoch >= options_.epochs; }

double Trainer::rate_now() const {
  const bool in_steps = options_.steps > 0;
  const std::int64_t steps = in_steps ? options_.steps : options_.epochs * run_.data.batches();
  return optim::rate_at(options_.schedule, options_.rate, {state_.epoch, in_steps ? 0 : options_.epochs, state_.step, steps}, options_.warmup);
}

Trainer::End Trainer::run() {
  std::optional<FolderLock> checkpoints;
  if (!options_.checkpoint_dir.empty() && ranks_.rank() == 0) checkpoints.emplace(options_.checkpoint_dir, kCheckpoint);
  if (!run_.log) return train_epochs();
  RunLog& log = *run_.log;
  log.begin();
  End end;
  try {
    const nn::Module& model = run_.task.module();
    log.start(run_.session, options_.model_name.empty() ? model.describe() : options_.model_name, model.parameter_elements(), resumed_from_);
    log.begin_steps(state_.step + 1);
    end = train_epochs();
  } catch (...) {
    log.end("failed");
    throw;
  }
  log.end(end == End::done ? "ok" : "interrupted");
  return end;
}

Trainer::End Trainer::train_epochs() {
  interrupted_ = false;
  while (!done())
    if (train_epoch() == End::interrupted) return End::interrupted;
  return End::done;
}

/// An epoch, or the part of it that an interrupt or the last step leaves.
Trainer::End Trainer::train_epoch() {
  const auto begin = last_done_ = Clock::now();
  const std::int64_t samples_before = state_.sums.samples;  // where the run goes on in the middle of an epoch
  train_batches();
  bool whole = epoch_is_whole();
  if (whole || !interrupted_) whole = end_epoch(seconds_since(begin), state_.sums.samples - samples_before) && whole;
  if (whole) state_ = {state_.step, state_.epoch + 1, 0, {}, {}};
  agree_on_interrupt();
  if (!options_.checkpoint_dir.empty()) save();
  return interrupted_ ? End::interrupted : End::done;
}

/// From where the run stands to the end of the epoch, or of the run, or to an interrupt. Ranks agree on a step while the one before it
/// runs, so they look one batch ahead; alone, nothing is loaded before the step that is due is enqueued.
void Trainer::train_batches() {
  const std::int64_t batches = run_.data.batches();
  const std::int64_t here = options_.steps ? std::min(batches, state_.batch + options_.steps - state_.step) : batches;
  const std::int64_t later = options_.steps ? options_.steps - state_.step - (here - state_.batch) : (options_.epochs - state_.epoch - 1) * batches;
  run_.reporter->epoch_begins(state_.epoch + 1, here, later);
  run_.data.start(state_.epoch, state_.batch);
  for (auto batch = next_batch(); batch;) {
    const Notice now = agree();
    if (now.interrupted) break;
    const bool last = state_.step + 1 == options_.steps || batch->index + 1 == batches;
    std::optional<datasets::Batch> next;
    if (!alone() && !last) next = next_batch();
    train_batch(*batch, now.weight);
    if (alone() && run_.reporter->interrupted()) interrupted_ = true;
    if (last || (alone() && interrupted_)) break;
    if (options_.checkpoint_every && state_.step % options_.checkpoint_every == 0) save();
    batch = alone() ? next_batch() : std::move(next);
  }
  settle_all();
  run_.reporter->epoch_trained();
}

/// Loads a batch and begins to agree on its step.
std::optional<datasets::Batch> Trainer::next_batch() {
  auto batch = run_.data.next();
  if (!batch) return batch;
  Notice notice{ranks_.weight(run_.task, *batch), !alone() && run_.reporter->interrupted(), {}};  // alone it is asked after the step
  if (!settled_.empty()) {
    announced_ = std::move(settled_.front());
    settled_.pop_front();
    notice.sums = announced_->sums;
  }
  ranks_.announce(std::move(notice));
  agreed_.reset();
  return batch;
}

Notice Trainer::agree() {
  if (!agreed_) agreed_ = ranks_.agreed();
  if (const auto told = std::exchange(announced_, std::nullopt)) report(told->made, *agreed_->sums, told->seconds);
  interrupted_ = interrupted_ || agreed_->interrupted;
  return *agreed_;
}

void Trainer::agree_on_interrupt() {
  ranks_.announce({0, run_.reporter->interrupted(), {}});
  interrupted_ = ranks_.agreed().interrupted || interrupted_;
}

void Trainer::train_batch(const datasets::Batch& batch, double weight) {
  const double rate = rate_now();
  run_.reporter->step_begins();
  ranks_.step_begins(batch.samples);
  ++state_.step;
  ahead_.push_back({{state_.step, batch.index, rate}, step_.train(batch, rate, state_.step, weight)});
  state_.batch = batch.index + 1;
  settle(step_.steps_ahead());  // a step that was just enqueued is not waited for
}

void Trainer::settle(std::size_t leave) {
  while (ahead_.size() > leave) {
    Ahead ahead = std::move(ahead_.front());
    ahead_.pop_front();
    Sums sums = ahead.result.get();
    const double seconds = seconds_since(std::exchange(last_done_, Clock::now()));
    if (alone())
      report(ahead.made, sums, seconds);
    else
      settled_.push_back({ahead.made, std::move(sums), seconds});
  }
}

/// Every step that was enqueued, on all ranks.
void Trainer::settle_all() {
  settle(0);
  if (announced_) agree();
  for (; !settled_.empty(); settled_.pop_front()) report(settled_.front().made, ranks_.merge(settled_.front().sums), settled_.front().seconds);
}

void Trainer::fail_on_loss(const std::string& which, double loss) const {
  throw Error(fmt::format("train: the {} is {}{}", which, loss, run_.reporter->why_not_finite()));
}

void Trainer::report(const Made& made, const Sums& sums, double seconds) {
  if (!std::isfinite(sums.loss)) fail_on_loss(fmt::format("loss of step {}", made.step), sums.mean_loss());
  state_.sums += sums;
  const double speed = static_cast<double>(sums.samples) / std::max(1e-9, seconds), ms = 1e3 * seconds, loss = sums.mean_loss();
  const std::optional<double> exposed = ranks_.next_exposed_ms();
  const std::optional<Staleness> stale = ranks_.next_staleness();
  if (run_.log) {
    nlohmann::ordered_json line{{"event", "step"}, {"step", made.step}, {"epoch", state_.epoch + 1}, {"loss", loss},
                                {"lr", made.rate}, {"ms", ms},          {"samples_per_s", speed}};
    if (exposed) line["exposed_comm_ms"] = *exposed;
    if (stale) line.update({{"staleness", stale->updates}, {"steps_behind", stale->steps_behind}});
    run_.log->event(line);
    run_.log->scalar("train/loss", loss, made.step);
    run_.log->scalar("train/lr", made.rate, made.step);
  }
  run_.reporter->step_done({made.step, state_.epoch + 1, made.batch, loss, made.rate, sums.samples, speed, ms});
}

/// @return whether it came to its end
bool Trainer::validate(EpochReport& report) {
  ranks_.join_model();
  Sums sums;
  try {
    sums = evaluate(step_, *run_.validation, [this] {
      run_.reporter->batch_evaluated();
      if (alone() && run_.reporter->interrupted()) throw CutShort();
    });
  } catch (const CutShort&) {
    return false;
  }
  ranks_.announce({0, !alone() && run_.reporter->interrupted(), std::move(sums)});
  const Notice all = ranks_.agreed();
  if (all.interrupted) return false;
  sums = *all.sums;
  if (!std::isfinite(sums.loss)) fail_on_loss(fmt::format("validation loss after step {}", state_.step), sums.mean_loss());
  report.validation_loss = sums.mean_loss();
  report.validation_metrics = run_.task.metrics(sums);
  return true;
}

/// @param seconds, samples  what this process spent and trained; the means are over the whole epoch
/// @return whether nothing interrupted it: what is saved then stands before its validation
bool Trainer::end_epoch(double seconds, std::int64_t samples) {
  EpochReport report{
      state_.epoch + 1, seconds, static_cast<double>(samples) / std::max(seconds, 1e-9), state_.sums.mean_loss(), run_.task.metrics(state_.sums), {}, {}};
  if (run_.validation && options_.eval_every && report.epoch % options_.eval_every == 0 && !validate(report)) return false;
  nlohmann::ordered_json line{{"event", "epoch"}, {"epoch", report.epoch}, {"seconds", seconds}, {"samples", state_.sums.samples}, {"train_loss", report.loss}};
  for (const Metric& m : report.metrics) line["train_" + m.name] = m.value;
  if (report.validation_loss) line["val_loss"] = *report.validation_loss;
  for (const Metric& m : report.validation_metrics) line["val_" + m.name] = m.value;
  line["samples_per_s"] = report.samples_per_s;
  run_.reporter->epoch_done(report, line);
  if (!run_.log) return true;
  run_.log->event(line);
  for (const Metric& m : report.metrics) run_.log->scalar(("train/" + m.name).c_str(), m.value, state_.step);
  if (report.validation_loss) run_.log->scalar("validation/loss", *report.validation_loss, state_.step);
  for (const Metric& m : report.validation_metrics) run_.log->scalar(("validation/" + m.name).c_str(), m.value, state_.step);
  return true;
}

void Trainer::save() {
  settle_all();
  ranks_.join_model();
  ranks_.check_same();
  run_.reporter->saves(state_.step);
  state_.ranks = ranks_.state();
  if (ranks_.rank() != 0) return;
  save_checkpoint(checkpoints_, run_.task.module(), run_.optimizer, state_, identity_);
  state_.ranks = {};
}

}  // namespace gemel::train
