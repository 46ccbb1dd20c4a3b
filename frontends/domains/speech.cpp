// Workloads of speech: models that write down what was said.
#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "datasets/speech/synthetic_speech.h"
#include "frontends/domains/workload_kinds.h"
#include "frontends/models/speech/deep_speech.h"
#include "frontends/train/tasks/speech_task.h"

namespace gemel::cli {
namespace {

datasets::SpeechSplits opened(const WorkloadOptions::Speech& o, const models::SpeechConfig& config) {
  const auto lengths = o.buckets ? datasets::RowLengths::of_batch : datasets::RowLengths::of_all;
  if (o.dataset == kSynthetic) return datasets::synthetic_speech({config.bands, o.frames, config.stride, o.samples, o.limit, o.seed, lengths});
  const datasets::LogMelOptions features{.sample_rate = config.sample_rate, .bands = config.bands};
  return datasets::open_speech(o.folder, {features, config.stride, o.limit, lengths});
}

class SpeechWorkload : public Workload {
 public:
  explicit SpeechWorkload(WorkloadOptions options)
      : options_(std::move(options)), config_(models::speech_config(options_.speech->config)), data_(opened(*options_.speech, config_)) {}
  std::string title() const override { return fmt::format("{}-{}", options_.model, std::filesystem::path(options_.speech->config).stem().string()); }
  const datasets::Dataset& train_data() const override { return *data_.train; }
  const datasets::Dataset* validation_data() const override { return data_.validation.get(); }
  std::string extent() const override {
    return fmt::format("{} utterances of at most {} frames and {} characters", data_.train->size(), data_.train->longest(), data_.train->longest_text());
  }
  std::unique_ptr<nn::Module> model(const ModelChanges& changes) const override {
    models::SpeechConfig config = config_;
    config.dropout = changes.dropout.value_or(config.dropout);
    return models::speech(config, data_.train->classes());
  }
  std::unique_ptr<train::Task> task(nn::Module& module) const override { return std::make_unique<train::SpeechTask>(module); }
  Specs batch(std::int64_t samples) const override {
    return {f32({samples, data_.train->longest(), config_.bands}), i64({samples}), i64({samples, data_.train->longest_text()})};
  }
  /// Biases and what normalises do not decay.
  std::vector<optim::Group> groups(const ParameterSet& parameters) const override { return optim::no_decay_on_vectors(parameters); }
  train::RunIdentity identity() const override {
    using train::Bearing;
    return {{"data set", options_.speech->dataset, Bearing::sample_order},
            {"configuration", options_.speech->config, Bearing::state},
            {"length buckets", options_.speech->buckets ? "on" : "off", Bearing::sample_order}};
  }

 private:
  WorkloadOptions options_;
  models::SpeechConfig config_;
  datasets::SpeechSplits data_;
};

}  // namespace

std::unique_ptr<Workload> speech_workload(const WorkloadOptions& options) { return std::make_unique<SpeechWorkload>(options); }

}  // namespace gemel::cli
