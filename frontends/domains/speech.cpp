// Speech: DeepSpeech writes down what was said.
#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "datasets/speech/characters.h"
#include "datasets/speech/synthetic_speech.h"
#include "engine/base/accepted.h"
#include "engine/base/numbers.h"
#include "engine/ops/ops.h"
#include "frontends/domains/domain.h"
#include "frontends/models/speech/deep_speech.h"
#include "frontends/train/tasks/speech_task.h"

namespace gemel::domains {
namespace {

constexpr const char* kSpeech = "speech";  // the model and the data set of files

struct SpeechData {
  std::string dataset = kSynthetic, folder, config = "base";  // synthetic speech needs no folder
  bool buckets = false;
  std::int64_t limit = 0;
  std::int64_t frames = 400, samples = 2048;  // of synthetic speech: frames of the longest, samples to train with
  std::uint64_t seed = 1;                     // that it is made by
};

datasets::SpeechSplits opened(const SpeechData& o, const models::SpeechConfig& config) {
  const auto lengths = o.buckets ? datasets::RowLengths::of_batch : datasets::RowLengths::of_all;
  if (o.dataset == kSynthetic) return datasets::synthetic_speech({config.bands, o.frames, config.stride, o.samples, o.limit, o.seed, lengths});
  const datasets::LogMelOptions features{.sample_rate = config.sample_rate, .bands = config.bands};
  return datasets::open_speech(o.folder, {features, config.stride, o.limit, lengths});
}

class SpeechWorkload : public Workload {
 public:
  explicit SpeechWorkload(SpeechData speech) : speech_(std::move(speech)), config_(models::speech_config(speech_.config)), data_(opened(speech_, config_)) {}
  std::string title() const override { return fmt::format("{}-{}", kSpeech, std::filesystem::path(speech_.config).stem().string()); }
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
    return {{"data set", speech_.dataset, Bearing::sample_order},
            {"configuration", speech_.config, Bearing::state},
            {"length buckets", speech_.buckets ? "on" : "off", Bearing::sample_order}};
  }

 private:
  SpeechData speech_;
  models::SpeechConfig config_;
  datasets::SpeechSplits data_;
};

OpenWorkload opener(const SpeechData& speech) {
  return [speech] { return std::make_unique<SpeechWorkload>(speech); };
}

OpenWorkload read_speech(const RunOptions& options) {
  return opener({.dataset = checked_data_set(options, {kSynthetic, kSpeech}, "the folder of its train.tsv and dev.tsv"),
                 .folder = options.text("data"),
                 .config = options.text("config"),
                 .buckets = options.on("length-buckets"),
                 .limit = sample_limit(options),
                 .seed = data_seed(options)});
}

std::vector<MadeUp> made_up_speech(const RunOptions& options, std::int64_t samples) {
  constexpr std::int64_t kFrames = 400;  // four seconds
  std::vector<MadeUp> out;
  for (const std::int64_t frames : options.text("input").empty() ? std::vector{kFrames} : options.wholes("input", 8, 1'000'000))
    out.push_back({std::to_string(frames), opener({.config = options.text("config"), .frames = frames, .samples = samples, .seed = data_seed(options)})});
  return out;
}

/// Transcripts are printed as the data set's files have them.
InferRequest infer_speech(const RunOptions& options) {
  refuse(options, {"text"}, fmt::format("--model {}, which takes sounds", kSpeech), "--input");
  const models::SpeechConfig config = models::speech_config(options.text("config"));
  const std::vector<std::string> files = split_at_commas(options.text("input"));
  InferRequest request;
  request.inputs = sounds_of(files, {.sample_rate = config.sample_rate, .bands = config.bands});
  request.model = models::speech(config, datasets::kCharacterClasses);
  request.tell = [files](const Values& outputs, std::int64_t begin, std::int64_t) {
    const std::vector<std::string> texts = train::texts_of(gemel::read(argmax(outputs[0], 2)), gemel::read(outputs[1]));
    for (std::size_t i = 0; i < texts.size(); ++i) fmt::print("{}\t{}\n", files[at(begin) + i], texts[i]);
  };
  return request;
}

}  // namespace

const Domain& speech() {
  static const Domain domain{
      .name = "speech",
      .takes = "takes speech",
      .models = [] { return std::vector<std::string>{kSpeech}; },
      .data_sets =
          [] {
            return std::vector<std::string>{kSynthetic, kSpeech};
          },
      .options = {&kConfig, &kLengthBuckets},
      .made_up_input = "frames of speech (default 400)",
      .has_blocks = [](const std::string&) { return false; },
      .read = read_speech,
      .made_up = made_up_speech,
      .infer = infer_speech,
  };
  return domain;
}

}  // namespace gemel::domains
