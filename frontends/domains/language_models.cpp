// Language models: GPT-2 on running text, in blocks of tokens.
#include <fmt/format.h>

#include <utility>

#include "datasets/texts/token_blocks.h"
#include "engine/base/error.h"
#include "engine/files/weights.h"
#include "frontends/domains/text_data.h"
#include "frontends/train/tasks/language_task.h"

namespace gemel::domains {
namespace {

class LanguageWorkload : public Workload {
 public:
  explicit LanguageWorkload(TextData texts) : texts_(std::move(texts)) {
    const models::TextSizes sizes = models::text_sizes(texts_.model, texts_.config);
    if (texts_.max_length > sizes.longest)
      throw UsageError(
          fmt::format("{}: {} tokens for a model of {} positions; accepted: at most as many", texts_.length_option, texts_.max_length, sizes.longest));
    if (texts_.dataset == kSynthetic) {
      data_ = datasets::synthetic_tokens({sizes.vocabulary, texts_.max_length, texts_.samples, texts_.seed});
      if (texts_.limit > 0)
        for (const auto& split : {data_.train.get(), data_.validation.get()}) split->keep(texts_.limit);
    } else {
      data_ = datasets::open_running_text(*texts_.tokenizer(), {texts_.folder, texts_.max_length, texts_.limit});
    }
  }
  std::string title() const override { return texts_.title(); }
  const datasets::Dataset& train_data() const override { return *data_.train; }
  const datasets::Dataset* validation_data() const override { return data_.validation.get(); }
  std::string extent() const override {
    return fmt::format("{} blocks of {} tokens, a vocabulary of {}", data_.train->size(), tokens(), data_.train->classes());
  }
  std::unique_ptr<nn::Module> model(const ModelChanges& changes) const override {
    return models::make_text(texts_.model,
                             {.config = texts_.config, .vocabulary = data_.train->classes(), .dropout = changes.dropout, .recompute = changes.recompute});
  }
  std::unique_ptr<train::Task> task(nn::Module& module) const override { return std::make_unique<train::LanguageTask>(module); }
  Specs batch(std::int64_t samples) const override { return {i64({samples, tokens()}), i64({samples, tokens()})}; }
  std::int64_t tokens() const override { return texts_.max_length; }
  /// Biases and what normalises do not decay.
  std::vector<optim::Group> groups(const ParameterSet& parameters) const override { return optim::no_decay_on_vectors(parameters); }
  train::RunIdentity identity() const override {
    using train::Bearing;
    return {{"vocabulary", std::to_string(data_.train->classes()), Bearing::state},
            {"data set", texts_.dataset, Bearing::sample_order},
            {"configuration", texts_.config, Bearing::state},
            {"input", fmt::format("{} tokens", tokens()), Bearing::sample_order}};
  }

 private:
  TextData texts_;
  datasets::TokenBlockSplits data_;
};

constexpr const char* kRunningText = "text";

std::unique_ptr<Workload> open_running_text(const TextData& texts) { return std::make_unique<LanguageWorkload>(texts); }

OpenWorkload read_running_text(const RunOptions& options) {
  const TextData texts =
      read_text_data(options, {{kRunningText}, "the folder of its train.txt", "GPT-2's folder of vocab.json and merges.txt, or a tokenizer.json"});
  return [texts] { return open_running_text(texts); };
}

std::vector<MadeUp> made_up_text(const RunOptions& options, std::int64_t samples) { return made_up_of(made_up_texts(options, samples), open_running_text); }

InferRequest infer_tokens(const RunOptions& options) {
  const std::string& name = options.text("model");
  refuse(options, {"text"}, fmt::format("--model {}, which has no classes", name), "--input, or gemel generate --prompt");
  refuse_beside_tokens(options, {"vocab", "cased", "max-length"});
  const WeightsHeader weights(options.text("weights"));
  models::TextOptions changes{.config = options.text("config")};
  const models::TextSizes sizes = models::text_sizes(name, changes.config);
  changes.vocabulary = models::vocabulary_in(name, weights.tensors()).value_or(sizes.vocabulary);
  changes.padding = sizes.padding;
  InferRequest request{
      .inputs = tokens_of(options.text("input"), *changes.vocabulary, sizes.longest), .model = models::make_text(name, changes), .takes_types = false};
  request.model->eval();
  return request;
}

}  // namespace

const Domain& language_models() {
  static const Domain domain{
      .name = "language models",
      .takes = "takes running text",
      .models = [] { return models_of(models::TextKind::language_model); },
      .data_sets = [] { return with_synthetic({kRunningText}); },
      .options = {&kConfig, &kVocabulary, &kCased, &kMaxLength},
      .has_blocks = has_text_blocks,
      .read = read_running_text,
      .made_up = made_up_text,
      .infer = infer_tokens,
      .resolved = resolved_length,
  };
  return domain;
}

}  // namespace gemel::domains
