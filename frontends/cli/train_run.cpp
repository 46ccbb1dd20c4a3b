#include "frontends/cli/train_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/file.h"
#include "frontends/cli/interrupt.h"
#include "frontends/models/models.h"
#include "frontends/nn/state_dict.h"

namespace gemel::cli {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Kernels leave an index that was out of range here. @throws DataError
void check_error_word(std::span<const std::byte> bytes, std::int64_t step) {
  std::int32_t word[4];
  std::memcpy(word, bytes.data(), sizeof word);
  if (word[0] != 0)
    throw DataError(fmt::format("step {}: an index or label {} is out of range; accepted: 0..{}", step, word[1], word[2] - 1));
}

nlohmann::ordered_json json_of(const opencl::DeviceProfile& p) {
  return {{"platform", p.platform}, {"name", p.name}, {"version", p.version}, {"driver", p.driver},
          {"type", to_string(p.kind)},
          {"compute_units", p.compute_units}, {"global_bytes", p.global_bytes}};
}

}  // namespace

TrainRun::TrainRun(TrainOptions options, std::vector<std::string> arguments)
    : options_(std::move(options)), arguments_(std::move(arguments)), log_(options_.common.log_dir) {}
TrainRun::~TrainRun() = default;

void TrainRun::check_outputs() const {
  for (const std::string& file : {options_.save, options_.common.profile})
    if (!file.empty()) check_can_write(file);
  if (!options_.checkpoint_dir.empty()) prepare_checkpoints(options_.checkpoint_dir);
}

void TrainRun::load_data() {
  data_ = datasets::open_dataset(options_.dataset);
  datasets::LoaderOptions loader;
  loader.batch_size = options_.batch_size;
  loader.shuffle = options_.shuffle;
  loader.augment = options_.augment;
  loader.seed = options_.common.seed;
  loader_ = std::make_unique<datasets::Loader>(*data_.train, loader);
  if (loader_->batches() == 0) throw DataError("train: the data set has no samples");
}

void TrainRun::build_model() {
  models::Options model;
  model.classes = options_.classes ? options_.classes : data_.train->classes();
  if (model.classes < data_.train->classes())
    throw UsageError(fmt::format("--classes: {} is fewer than the data set has; accepted: {} or more", model.classes, data_.train->classes()));
  model.dropout = options_.dropout;
  model.channels = data_.train->shape()[0];
  model_ = models::make(options_.model, model);
  if (!options_.weights.empty()) {
    for (const std::string& name : nn::load_weights(*model_, *session_, options_.weights, nn::Mismatch::keep_output_layers))
      fmt::print(stderr, "weights: {} starts afresh, its shape differs from the file's\n", name);
  }
  model_->materialise(*session_);
  if (options_.freeze_backbone) {
    model_->freeze();
    for (const std::string& path : model_->output_layers()) model_->find(path)->unfreeze();
  }
  optimizer_ = optim::make(options_.optimizer_name, optim::all_in_one(model_->parameters()), options_.optimizer);
  training_ = std::make_unique<Training>(*session_, *model_, optimizer_.get(), options_.frontend, options_.common.passes, options_.clip_norm);
}

RunIdentity TrainRun::identity() const {
  const auto& p = device_->profile();
  return {{"device", p.name}, {"platform", p.platform}, {"driver", p.driver}, {"threads", std::to_string(p.compute_units)},
          {"build", build_identity()}, {"model", options_.model}, {"optimizer", options_.optimizer_name},
          {"frontend", options_.frontend == Frontend::graph ? "graph" : "eager"}, {"batch size", std::to_string(options_.batch_size)},
          {"seed", std::to_string(options_.common.seed)},
          {"data set", options_.dataset.name}, {"samples", std::to_string(data_.train->size())}, {"graph passes", options_.common.passes_text}};
}

void TrainRun::resume() {
  if (options_.resume.empty()) return;
  const auto file = options_.resume == "auto" ? newest_checkpoint(options_.checkpoint_dir) : std::optional(std::filesystem::path(options_.resume));
  if (!file) {
    log_.go_on_after(0, 0);
    fmt::print(stderr, "resume: no checkpoint in {}, starting from the beginning\n", options_.checkpoint_dir);
    return;
  }
  const Restored restored = load_checkpoint(*file, *model_, *optimizer_, *session_, identity());
  for (const std::string& line : restored.differences) fmt::print(stderr, "resume: warning: {}; results may differ in the last bits\n", line);
  state_ = restored.state;
  if (state_.batch > loader_->batches())
    throw DataError(fmt::format("resume: {} stands at batch {} of its epoch; accepted: up to {}, what this data set has at this batch size",
                                file->string(), state_.batch, loader_->batches()));
  log_.go_on_after(state_.step, state_.epoch);
  resumed_from_ = file->string();
  fmt::print(stderr, "resume: going on after step {} from {}\n", state_.step, file->string());
}

std::int64_t TrainRun::total_steps() const { return options_.steps ? options_.steps : options_.epochs * loader_->batches(); }

double TrainRun::rate_now() const {
  const optim::Progress progress = options_.steps ? optim::Progress{state_.epoch, state_.step, options_.steps}
                                                  : optim::Progress{state_.epoch, state_.epoch, options_.epochs};
  return optim::rate_at(options_.schedule, options_.rate, progress);
}

void TrainRun::log_start() {
  nlohmann::ordered_json line{{"event", "start"}, {"argv", arguments_}, {"version", GEMEL_VERSION}, {"device", json_of(device_->profile())},
                              {"model", options_.model}, {"parameters", model_->parameter_elements()}, {"ranks", 1}};
  if (resumed_from_) line["resumed_from"] = *resumed_from_;
  log_.event(line);
  fmt::print(stderr, "model: {}, {} parameters; data: {} samples, {} classes; {} front end\n", options_.model, model_->parameter_elements(),
             data_.train->size(), data_.train->classes(), options_.frontend == Frontend::graph ? "graph" : "eager");
}

int TrainRun::run() {
  const InterruptGuard interrupts;
  try {
    check_outputs();
    load_data();
    opencl::DeviceOptions device = options_.common.device;
    device.profiling = true;
    CommonOptions common = options_.common;
    common.device = device;
    device_ = open_device(common);
    session_ = std::make_unique<Session>(*device_, options_.common.seed);
    times_.emplace(*device_, options_.common.profile);
    build_model();
    if (options_.detect_anomaly) anomaly_.emplace(*session_);
    resume();
    log_start();
    Ended ended = Ended::epoch;
    while (ended == Ended::epoch && state_.step < total_steps()) ended = train_epoch();
    if (ended == Ended::interrupted) {
      finish("interrupted");
      return 1;
    }
    if (!options_.save.empty()) nn::save_weights(*model_, options_.save);
    times_->write_trace();
    finish("ok");
    return 0;
  } catch (...) {
    try {
      log_.event({{"event", "end"}, {"seconds", seconds_since(begin_)}, {"status", "failed"}});
    } catch (const Error&) {
      // The error that ended the run matters more than a log on a full disk.
    }
    throw;
  }
}

TrainRun::Ended TrainRun::train_epoch() {
  loader_->start(state_.epoch, state_.batch);
  const auto begin = Clock::now();
  const std::string of = options_.steps ? "" : fmt::format("/{}", options_.epochs);
  progress_.emplace(fmt::format("epoch {}{}", state_.epoch + 1, of), loader_->batches());
  last_report_ = begin;
  times_->take_busy_seconds();
  while (auto batch = loader_->next()) {
    train_batch(*batch);
    state_.batch = batch->index + 1;
    const bool whole_epoch = state_.batch == loader_->batches(), last = state_.step == total_steps();
    if (InterruptGuard::interrupted()) {
      settle(0);
      progress_.reset();
      if (options_.checkpoint_dir.empty())
        fmt::print(stderr, "interrupted after step {}: nothing was saved, there is no --checkpoint-dir\n", state_.step);
      else
        save_state();
      return Ended::interrupted;
    }
    const bool due = options_.checkpoint_every && state_.step % options_.checkpoint_every == 0;
    if (due && !whole_epoch) save_state();
    if (last && !whole_epoch) break;
  }
  settle(0);
  progress_.reset();
  const bool whole_epoch = state_.batch == loader_->batches();
  end_epoch(seconds_since(begin));
  if (whole_epoch) state_ = {state_.step, state_.epoch + 1, 0, 0, 0, 0};
  if (!options_.checkpoint_dir.empty()) save_state();
  return state_.step < total_steps() ? Ended::epoch : Ended::run;
}

void TrainRun::train_batch(const datasets::Batch& batch) {
  const double rate = rate_now();
  ++state_.step;
  StepResult result = training_->train(batch, rate, state_.step);
  pending_.push_back({std::move(result), device_->read_later(device_->error_word()), state_.step, batch.size(), rate});
  settle(1);  // the step just enqueued is not waited for
}

void TrainRun::settle(std::size_t leave) {
  while (pending_.size() > leave) {
    const Pending p = std::move(pending_.front());
    pending_.pop_front();
    const double loss = p.result.loss()[0];
    check_error_word(p.error_word->get(), p.step);
    if (!std::isfinite(loss)) fail_on_loss(fmt::format("loss of step {}", p.step), loss);
    report(p, loss, static_cast<std::int64_t>(p.result.correct()[0]));
  }
}

void TrainRun::fail_on_loss(const std::string& which, double loss) const {
  std::string what = fmt::format("train: the {} is {}", which, loss);
  if (anomaly_ && anomaly_->first()) what += "; the first operator that made a NaN: " + *anomaly_->first();
  else if (!anomaly_) what += "; --detect-anomaly names the operator that made it";
  throw Error(what);
}

void TrainRun::report(const Pending& p, double loss, std::int64_t correct) {
  state_.loss_sum += loss * static_cast<double>(p.samples);
  state_.correct += correct;
  state_.samples += p.samples;
  const double rate = static_cast<double>(p.samples) / std::max(1e-9, seconds_since(last_report_));
  last_report_ = Clock::now();
  log_.event({{"event", "step"}, {"step", p.step}, {"epoch", state_.epoch + 1}, {"loss", loss}, {"lr", p.rate}, {"samples_per_s", rate}});
  log_.scalar("train/loss", loss, p.step);
  log_.scalar("train/lr", p.rate, p.step);
  times_->collect();
  progress_->show((p.step - 1) % loader_->batches() + 1, loss, rate);
}

TrainRun::Totals TrainRun::validate() {
  datasets::LoaderOptions options;
  options.batch_size = options_.batch_size;
  options.shuffle = datasets::Shuffle::off;
  datasets::Loader loader(*data_.validation, options);
  loader.start(0);
  Totals totals;
  std::deque<std::pair<StepResult, std::int64_t>> open;
  const auto settle_one = [&] {
    const auto& [result, samples] = open.front();
    totals.loss += result.loss()[0] * static_cast<double>(samples);
    totals.correct += static_cast<std::int64_t>(result.correct()[0]);
    totals.samples += samples;
    open.pop_front();
  };
  while (auto batch = loader.next()) {
    open.emplace_back(training_->evaluate(*batch), batch->size());
    if (open.size() > 1) settle_one();
  }
  while (!open.empty()) settle_one();
  return totals;
}

void TrainRun::end_epoch(double seconds) {
  const double busy = times_->take_busy_seconds() / std::max(seconds, 1e-9);
  const auto memory = device_->memory().statistics();
  const double samples = static_cast<double>(std::max<std::int64_t>(1, state_.samples));
  nlohmann::ordered_json line{{"event", "epoch"}, {"epoch", state_.epoch + 1}, {"seconds", seconds}, {"train_loss", state_.loss_sum / samples},
                              {"train_accuracy", static_cast<double>(state_.correct) / samples}};
  std::string text = fmt::format("epoch {}: {:.1f} s, loss {:.4f}, accuracy {:.4f}", state_.epoch + 1, seconds, state_.loss_sum / samples,
                                 static_cast<double>(state_.correct) / samples);
  if (data_.validation && options_.eval_every && (state_.epoch + 1) % options_.eval_every == 0) {
    const Totals v = validate();
    const double n = static_cast<double>(std::max<std::int64_t>(1, v.samples));
    if (!std::isfinite(v.loss)) fail_on_loss(fmt::format("validation loss after step {}", state_.step), v.loss / n);
    line["val_loss"] = v.loss / n;
    line["val_accuracy"] = static_cast<double>(v.correct) / n;
    text += fmt::format(", validation loss {:.4f}, accuracy {:.4f}", v.loss / n, static_cast<double>(v.correct) / n);
    log_.scalar("validation/loss", v.loss / n, state_.step);
    log_.scalar("validation/accuracy", static_cast<double>(v.correct) / n, state_.step);
  }
  const double speed = static_cast<double>(state_.samples) / std::max(seconds, 1e-9);
  line["samples_per_s"] = speed;
  line["device_busy"] = std::min(1.0, busy);
  line["peak_device_bytes"] = memory.peak_in_use;
  log_.event(line);
  log_.scalar("train/accuracy", static_cast<double>(state_.correct) / samples, state_.step);
  fmt::print(stderr, "{}; {:.1f} samples/s, device busy {:.0f} %, peak {:.1f} MiB{}\n", text, speed, 100 * std::min(1.0, busy),
             static_cast<double>(memory.peak_in_use) / 1048576.0,
             training_->arena_bytes() ? fmt::format(", of that planned {:.1f} MiB", static_cast<double>(training_->arena_bytes()) / 1048576.0) : "");
  last_epoch_ = std::move(line);
}

void TrainRun::save_state() {
  settle(0);
  save_checkpoint(options_.checkpoint_dir, *model_, *optimizer_, state_, identity());
}

void TrainRun::finish(const char* status) {
  log_.event({{"event", "end"}, {"seconds", seconds_since(begin_)}, {"status", status}});
  nlohmann::ordered_json summary{{"status", status}, {"steps", state_.step}, {"seconds", seconds_since(begin_)}, {"model", options_.model},
                                 {"parameters", model_->parameter_elements()}, {"device", json_of(device_->profile())}};
  if (!last_epoch_.is_null()) summary["last_epoch"] = last_epoch_;
  log_.summarise(summary);
}

}  // namespace gemel::cli
