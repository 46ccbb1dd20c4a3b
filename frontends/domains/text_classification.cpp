// Texts by class: BERT and LSTMs on GLUE's tasks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "datasets/texts/glue.h"
#include "datasets/texts/synthetic_texts.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/files/weights.h"
#include "engine/ops/ops.h"
#include "frontends/domains/text_data.h"
#include "frontends/nn/state/state_dict.h"

namespace gemel::domains {
namespace {

constexpr std::int64_t kLeastClasses = 2;  // as GLUE's tasks have

class TextWorkload : public Workload {
 public:
  explicit TextWorkload(TextData texts) : texts_(std::move(texts)), sizes_(models::text_sizes(texts_.model, texts_.config)) {
    if (sizes_.longest > 0 && texts_.max_length > sizes_.longest)
      throw UsageError(
          fmt::format("{}: {} tokens for a model of {} positions; accepted: at most as many", texts_.length_option, texts_.max_length, sizes_.longest));
    if (texts_.dataset == kSynthetic) {
      data_ = datasets::synthetic_texts(
          {sizes_.vocabulary, sizes_.padding, std::max(texts_.classes, kLeastClasses), texts_.max_length, texts_.samples, texts_.seed, texts_.row_lengths()});
      if (texts_.limit > 0)
        for (const auto& split : {data_.train.get(), data_.validation.get()}) split->keep(texts_.limit);
      return;
    }
    const auto tokenizer = texts_.tokenizer();
    sizes_.vocabulary = tokenizer->vocabulary().size();
    sizes_.padding = tokenizer->padding();
    data_ = datasets::open_glue(texts_.dataset, *tokenizer, {texts_.folder, texts_.max_length, texts_.limit, texts_.row_lengths()});
  }
  std::string title() const override { return texts_.title(); }
  const datasets::Dataset& train_data() const override { return *data_.train; }
  const datasets::Dataset* validation_data() const override { return data_.validation.get(); }
  std::unique_ptr<nn::Module> model(const ModelChanges& changes) const override {
    return models::make_text(texts_.model, {texts_.config, classes(), sizes_.vocabulary, sizes_.padding, changes.dropout, changes.recompute, texts_.lstm});
  }
  std::unique_ptr<train::Task> task(nn::Module& module) const override {
    const std::string first = texts_.dataset == "cola" ? "matthews" : texts_.dataset == "mrpc" ? "f1" : "accuracy";
    return std::make_unique<train::ClassificationTask>(module, classes(), train::ClassificationOptions{{"ids", "types"}, first, texts_.label_smoothing});
  }
  Specs batch(std::int64_t samples) const override {
    const std::int64_t longest = data_.train->longest();
    return {i64({samples, longest}), i64({samples, longest}), i64({samples})};
  }
  std::int64_t tokens() const override { return data_.train->longest(); }
  /// Biases and what normalises do not decay.
  std::vector<optim::Group> groups(const ParameterSet& parameters) const override { return optim::no_decay_on_vectors(parameters); }
  train::RunIdentity identity() const override {
    using train::Bearing;
    return {{"classes", std::to_string(classes()), Bearing::state},
            {"data set", texts_.dataset, Bearing::sample_order},
            {"configuration", texts_.config, Bearing::state},
            {"length buckets", texts_.buckets ? "on" : "off", Bearing::sample_order},
            {"input", fmt::format("at most {} tokens", texts_.max_length), Bearing::setting}};
  }

 private:
  std::int64_t classes() const { return std::max(texts_.classes, data_.train->classes()); }

  TextData texts_;
  models::TextSizes sizes_;
  datasets::TextSplits data_;
};

const OptionDef kLstm{"lstm", "fused", "LSTMs are computed by kernels of whole sequences, fused, or in steps, by operators one after another",
                      OptionUse::model};

/// --lstm; fused where the command has none. @throws UsageError where the model has no LSTM
nn::LstmComputation lstm_option(const RunOptions& options) {
  if (!options.has("lstm") || options.choice("lstm", {"fused", "steps"}) == "fused") return nn::LstmComputation::fused;
  const std::string& model = options.text("model");
  if (models::text_has_lstm(model)) return nn::LstmComputation::steps;
  std::vector<std::string> others = models_of(models::TextKind::classifier);
  std::erase_if(others, [](const std::string& name) { return !models::text_has_lstm(name); });
  throw UsageError(
      fmt::format("--lstm: steps is given with --model {}, which has no LSTM; accepted: fused, or another model: {}", model, fmt::join(others, ", ")));
}

std::unique_ptr<Workload> open_texts(const TextData& texts) { return std::make_unique<TextWorkload>(texts); }

OpenWorkload read_texts(const RunOptions& options) {
  const auto glue = datasets::glue_names();
  TextData texts = read_text_data(
      options, {{glue.begin(), glue.end()}, "the folder of its train.tsv and dev.tsv", "BERT's vocab.txt, a tokenizer.json, or a folder with one of them"});
  texts.classes = class_count(options, 0);
  texts.lstm = lstm_option(options);
  if (texts.classes > 0 && texts.classes < kLeastClasses)
    throw UsageError(fmt::format("--classes: {} is given with --model {}, whose texts have {} or more; accepted: as many, or 0 for the data set's",
                                 texts.classes, texts.model, kLeastClasses));
  return [texts] { return open_texts(texts); };
}

std::vector<MadeUp> made_up_classes(const RunOptions& options, std::int64_t samples) {
  std::vector<TextData> all = made_up_texts(options, samples);
  for (TextData& texts : all) {
    texts.classes = options.given("classes") ? class_count(options, kLeastClasses) : kLeastClasses;
    texts.lstm = lstm_option(options);
  }
  return made_up_of(all, open_texts);
}

/// Prints "1 0.9312 a text": the class of the largest logit, its probability.
void print_classes(const Value& logits, std::span<const std::string> texts) {
  const std::vector<double> all = gemel::read(logits);
  const std::size_t classes = all.size() / texts.size();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::span row = std::span(all).subspan(i * classes, classes);
    const auto most = std::ranges::max_element(row);
    double sum = 0;
    for (const double x : row) sum += std::exp(x - *most);
    fmt::print("{} {:.4f} {}\n", most - row.begin(), 1 / sum, texts[i]);
  }
}

/// Sizes of vocabulary and last layer are the weight file's.
InferRequest infer_texts(const RunOptions& options) {
  const std::string& name = options.text("model");
  const WeightsHeader weights(options.text("weights"));
  models::TextOptions changes{.config = options.text("config"), .lstm = lstm_option(options)};
  models::TextSizes sizes = models::text_sizes(name, changes.config);
  sizes.vocabulary = models::vocabulary_in(name, weights.tensors()).value_or(sizes.vocabulary);
  InferRequest request;
  if (options.has("text")) {
    const auto tokenizer = tokenizer_of(options, "--text", "BERT's vocab.txt, a tokenizer.json, or a folder with one of them", sizes.vocabulary);
    sizes.padding = tokenizer->padding();
    const std::int64_t given = options.whole("max-length", 2, 1e6), longest = sizes.longest > 0 ? std::min(sizes.longest, given) : given;
    const std::vector<std::string> texts = options.texts("text");
    request.inputs = tokens_of(texts, sizes.padding, [&](const std::string& text) { return tokenizer->for_model(text, {}, longest); });
    request.tell = [texts](const Values& outputs, std::int64_t begin, std::int64_t count) {
      print_classes(outputs[0], std::span(texts).subspan(at(begin), at(count)));
    };
  } else {
    refuse_beside_tokens(options, {"vocab", "cased", "max-length"});
    request.inputs = tokens_of(options.text("input"), sizes.vocabulary, sizes.longest);
  }
  changes.vocabulary = sizes.vocabulary;
  changes.padding = sizes.padding;
  if (const std::int64_t asked = class_count(options, 0); asked > 0)
    changes.classes = asked;
  else
    changes.classes = nn::output_size_in(*models::make_text(name, changes), weights.tensors()).value_or(changes.classes);
  request.model = models::make_text(name, changes);
  request.model->eval();
  return request;
}

}  // namespace

const Domain& text_classification() {
  static const Domain domain{
      .name = "texts",
      .takes = "takes texts",
      .models = [] { return models_of(models::TextKind::classifier); },
      .data_sets =
          [] {
            const auto glue = datasets::glue_names();
            return with_synthetic({glue.begin(), glue.end()});
          },
      .options = {&kClasses, &kConfig, &kVocabulary, &kCased, &kMaxLength, &kLengthBuckets, &kLstm},
      .made_up_input = "tokens of a text (default 128)",
      .smooths_labels = true,
      .has_blocks = has_text_blocks,
      .read = read_texts,
      .made_up = made_up_classes,
      .infer = infer_texts,
      .resolved = resolved_length,
  };
  return domain;
}

}  // namespace gemel::domains
