// What a run of training tells: how it starts, its epochs, and a loss that is not finite.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "datasets/loading/shard.h"
#include "engine/base/clock.h"
#include "engine/base/resource_limits.h"
#include "frontends/cli/options/model_options.h"
#include "frontends/cli/run/train_run.h"
#include "frontends/cli/system/console.h"
#include "frontends/cli/system/interrupt.h"
#include "frontends/cli/system/units.h"
#include "frontends/distributed/data_parallel.h"

namespace gemel::cli {
namespace {

/// ", accuracy 0.9312"
std::string text_of(const std::vector<train::Metric>& metrics) {
  std::string out;
  for (const train::Metric& m : metrics) out += fmt::format(", {} {:.4f}", m.name, m.value);
  return out;
}

}  // namespace

void TrainRun::tell_loaded(const nn::Loaded& loaded) const {
  say_prefix(loaded);
  for (const std::string& name : loaded.fresh) cli::say("weights: {} starts afresh, the file has none of its shape\n", name);
  if (!loaded.left_aside.empty()) cli::say("weights: left aside, as the model has no such tensors: {}\n", fmt::join(loaded.left_aside, ", "));
}

void TrainRun::tell_start() {
  scope_.summarise(options_.model, *model_);
  scope_.summary()["steps"] = trainer_->state().step;
  scope_.summary()["batch_size"] = static_cast<double>(batch_samples()) / static_cast<double>(strategy().steps_per_batch(job_.size()));  // samples of a step
  if (job_.communication()) tell_ranks();
  cli::say("model: {}, {} parameters; data: {}; {} front end\n", options_.model, model_->parameter_elements(), work_->extent(),
           train::to_string(options_.frontend));
}

void TrainRun::tell_ranks() {
  parallel::CommunicationThread& communication = *job_.communication();
  const opencl::DeviceProfile& device = scope_.device().profile();
  const std::int64_t share = datasets::part_of(batch_samples(), copy(), copies()).count;
  Json mine{{"host", communication.placement().hosts[static_cast<std::size_t>(job_.rank())]},
            {"device", device.name},
            {"platform", device.platform},
            {"units", device.compute_units},
            {"share", share}};
  mine.update(shared_->about_rank());
  Json all = Json::array();
  for (const std::string& text : distributed::texts_of_ranks(communication, mine.dump())) all.push_back(Json::parse(text));
  Json about{{"each_rank", all}};
  about.update(shared_->tell_ranks());
  scope_.log().tell_about(about);
}

// ---- what the trainer tells

void TrainRun::say(const std::string& line) { cli::say("{}\n", line); }

/// Once the log has its first line.
void TrainRun::record_usage() {
  if (usage_ || !options_.spec.contains("log-dir") || options_.spec["log-dir"].get<std::string>().empty()) return;
  const opencl::DeviceOptions& device = options_.common.device;
  usage_.emplace(scope_, job_, device.threads_are_a_share ? device.threads : allowed_cores().count());
}

void TrainRun::epoch_begins(std::int64_t epoch, std::int64_t here, std::int64_t later) {
  record_usage();
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
  auto& measured = scope_.summary()["measured_unix_s"];
  if (measured.is_null()) measured = {unix_seconds(), unix_seconds()};
  measured[1] = unix_seconds();
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

/// Where ranks hold parts of a model all come here; one of them met it first.
std::string TrainRun::why_not_finite() {
  if (!anomaly_) return "; --detect-anomaly names the operator that made it";
  std::string first = anomaly_->first().value_or("");
  if (strategy().splits_model()) {
    const std::vector<std::string> all = distributed::texts_of_ranks(*job_.communication(), first);
    const auto found = std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
    first = found == all.end() ? "" : fmt::format("{} on rank {}", *found, found - all.begin());
  }
  return first.empty() ? "; no operator made a NaN: numbers grew too large, or a weight or a sample has one" : "; the first operator that made a NaN: " + first;
}

bool TrainRun::interrupted() { return InterruptGuard::interrupted(); }

}  // namespace gemel::cli
