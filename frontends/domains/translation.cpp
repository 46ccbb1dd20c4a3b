// Translation: a transformer writes a target for a source.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <span>
#include <utility>

#include "datasets/formats/utf8_stream.h"
#include "datasets/texts/translation_dataset.h"
#include "engine/base/numbers.h"
#include "engine/files/weights.h"
#include "engine/ops/ops.h"
#include "frontends/domains/text_data.h"
#include "frontends/train/tasks/translation_task.h"

namespace gemel::domains {
namespace {

class TranslationWorkload : public Workload {
 public:
  explicit TranslationWorkload(TextData texts) : texts_(std::move(texts)), sizes_(models::text_sizes(texts_.model, texts_.config)) {
    if (texts_.dataset == kSynthetic) {
      data_ = datasets::synthetic_translations(
          {sizes_.vocabulary, sizes_.padding, {sizes_.begin, sizes_.end}, texts_.max_length, texts_.samples, texts_.seed, texts_.row_lengths()});
      if (texts_.limit > 0)
        for (const auto& split : {data_.train.get(), data_.validation.get()}) split->keep(texts_.limit);
      return;
    }
    tokenizer_ = texts_.tokenizer();
    const datasets::TextEnds ends = tokenizer_->ends();
    sizes_ = {tokenizer_->vocabulary().size(), tokenizer_->padding(), 0, ends.begin, ends.end};
    data_ = datasets::open_translations(*tokenizer_, {texts_.folder, texts_.max_length, texts_.limit, texts_.row_lengths()});
  }
  std::string title() const override { return texts_.title(); }
  const datasets::Dataset& train_data() const override { return *data_.train; }
  const datasets::Dataset* validation_data() const override { return data_.validation.get(); }
  std::string extent() const override { return fmt::format("{} pairs of texts, a vocabulary of {}", data_.train->size(), sizes_.vocabulary); }
  std::unique_ptr<nn::Module> model(const ModelChanges& changes) const override {
    return models::make_text(texts_.model, {.config = texts_.config,
                                            .vocabulary = sizes_.vocabulary,
                                            .padding = sizes_.padding,
                                            .dropout = changes.dropout,
                                            .recompute = changes.recompute,
                                            .begin = sizes_.begin,
                                            .end = sizes_.end,
                                            .longest = texts_.max_length});
  }
  std::unique_ptr<train::Task> task(nn::Module& module) const override {
    const auto text_of = [tokenizer = tokenizer_](const std::vector<std::int64_t>& ids) {
      return tokenizer ? tokenizer->decode(ids) : fmt::format("{}", fmt::join(ids, " "));
    };
    return std::make_unique<train::TranslationTask>(module, train::TranslationTaskOptions{sizes_.end, texts_.label_smoothing, text_of});
  }
  Specs batch(std::int64_t samples) const override {
    const Spec target = i64({samples, data_.train->longest_target()});
    return {i64({samples, data_.train->longest_source()}), target, target};
  }
  /// Of a translation.
  std::int64_t tokens() const override { return data_.train->longest_target(); }
  /// Biases and what normalises do not decay.
  std::vector<optim::Group> groups(const ParameterSet& parameters) const override { return optim::no_decay_on_vectors(parameters); }
  train::RunIdentity identity() const override {
    using train::Bearing;
    return {{"vocabulary", std::to_string(sizes_.vocabulary), Bearing::state},
            {"data set", texts_.dataset, Bearing::sample_order},
            {"configuration", texts_.config, Bearing::state},
            {"length buckets", texts_.buckets ? "on" : "off", Bearing::sample_order},
            {"input", fmt::format("at most {} tokens", texts_.max_length), Bearing::setting}};
  }

 private:
  TextData texts_;
  models::TextSizes sizes_;
  std::shared_ptr<const datasets::Tokenizer> tokenizer_;  // of texts; null of data that are made up
  datasets::TranslationSplits data_;
};

constexpr const char* kTranslation = "translation";

std::unique_ptr<Workload> open_translation(const TextData& texts) { return std::make_unique<TranslationWorkload>(texts); }

OpenWorkload read_translation(const RunOptions& options) {
  const TextData texts =
      read_text_data(options, {{kTranslation},
                               "the folder of its train.tsv and dev.tsv",
                               "BERT's vocab.txt, a tokenizer.json, or a folder with one of them or with GPT-2's vocab.json and merges.txt"});
  return [texts] { return open_translation(texts); };
}

std::vector<MadeUp> made_up_translation(const RunOptions& options, std::int64_t samples) {
  return made_up_of(made_up_texts(options, samples), open_translation);
}

/// Prints a translation a line.
void print_translations(const Value& tokens, const datasets::Tokenizer& tokenizer) {
  const std::vector<double> all = gemel::read(tokens);
  const auto most = static_cast<std::size_t>(tokens.shape()[1]);
  for (std::size_t begin = 0; begin < all.size(); begin += most) {
    datasets::Utf8Pieces whole;  // bytes that a model writes need be no text
    const std::string text = whole.add(tokenizer.decode(train::before_end(std::span(all).subspan(begin, most), tokenizer.ends().end)));
    fmt::print("{}{}\n", text, whole.end());
  }
}

InferRequest infer_translation(const RunOptions& options) {
  const std::string &name = options.text("model"), &config = options.text("config");
  const WeightsHeader weights(options.text("weights"));
  const std::int64_t vocabulary = models::vocabulary_in(name, weights.tensors()).value_or(models::text_sizes(name, config).vocabulary);
  const std::shared_ptr<const datasets::Tokenizer> tokenizer = tokenizer_of(options, "--model " + name, "the vocabulary that it was trained with", vocabulary);
  const std::int64_t longest = options.whole("max-length", 2, 1e6);
  InferRequest request{.takes_types = false, .tells_finite = true};
  if (options.has("text")) {
    request.inputs = tokens_of(options.texts("text"), tokenizer->padding(), [&](const std::string& text) {
      std::vector<std::int64_t> ids = datasets::between_ends(*tokenizer, text, longest), types(ids.size(), 0);
      return datasets::Tokens{std::move(ids), std::move(types)};
    });
    request.tell = [tokenizer](const Values& outputs, std::int64_t, std::int64_t) { print_translations(outputs[0], *tokenizer); };
  } else {
    refuse_beside_tokens(options, {"cased"});
    request.inputs = tokens_of(options.text("input"), vocabulary, 0);
  }
  const datasets::TextEnds ends = tokenizer->ends();
  request.model = models::make_text(
      name, {.config = config, .vocabulary = vocabulary, .padding = tokenizer->padding(), .begin = ends.begin, .end = ends.end, .longest = longest});
  request.model->eval();
  return request;
}

}  // namespace

const Domain& translation() {
  static const Domain domain{
      .name = "translations",
      .takes = "translates texts",
      .models = [] { return models_of(models::TextKind::translator); },
      .data_sets = [] { return with_synthetic({kTranslation}); },
      .options = {&kConfig, &kVocabulary, &kCased, &kMaxLength, &kLengthBuckets},
      .smooths_labels = true,
      .has_blocks = has_text_blocks,
      .read = read_translation,
      .made_up = made_up_translation,
      .infer = infer_translation,
      .resolved = resolved_length,
  };
  return domain;
}

}  // namespace gemel::domains
