// Workloads of translations: models that write a target for a source.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "datasets/texts/open_tokenizer.h"
#include "datasets/texts/translation_dataset.h"
#include "frontends/domains/workload_kinds.h"
#include "frontends/models/texts/text_models.h"
#include "frontends/train/tasks/translation_task.h"

namespace gemel::cli {
namespace {

class TranslationWorkload : public Workload {
 public:
  explicit TranslationWorkload(WorkloadOptions options) : options_(std::move(options)), sizes_(models::text_sizes(options_.model, options_.text->config)) {
    const WorkloadOptions::Text& text = *options_.text;
    const auto lengths = text.buckets ? datasets::RowLengths::of_batch : datasets::RowLengths::of_all;
    if (text.dataset == kSynthetic) {
      data_ =
          datasets::synthetic_translations({sizes_.vocabulary, sizes_.padding, {sizes_.begin, sizes_.end}, text.max_length, text.samples, text.seed, lengths});
      if (text.limit > 0)
        for (const auto& split : {data_.train.get(), data_.validation.get()}) split->keep(text.limit);
      return;
    }
    tokenizer_ = datasets::open_tokenizer(text.vocabulary, text.cased ? datasets::Letters::kept : datasets::Letters::lower);
    const datasets::TextEnds ends = tokenizer_->ends();
    sizes_ = {tokenizer_->vocabulary().size(), tokenizer_->padding(), 0, ends.begin, ends.end};
    data_ = datasets::open_translations(*tokenizer_, {text.folder, text.max_length, text.limit, lengths});
  }
  std::string title() const override { return fmt::format("{}-{}", options_.model, std::filesystem::path(options_.text->config).stem().string()); }
  const datasets::Dataset& train_data() const override { return *data_.train; }
  const datasets::Dataset* validation_data() const override { return data_.validation.get(); }
  std::string extent() const override { return fmt::format("{} pairs of texts, a vocabulary of {}", data_.train->size(), sizes_.vocabulary); }
  std::unique_ptr<nn::Module> model(const ModelChanges& changes) const override {
    return models::make_text(options_.model, {.config = options_.text->config,
                                              .vocabulary = sizes_.vocabulary,
                                              .padding = sizes_.padding,
                                              .dropout = changes.dropout,
                                              .recompute = changes.recompute,
                                              .begin = sizes_.begin,
                                              .end = sizes_.end,
                                              .longest = options_.text->max_length});
  }
  std::unique_ptr<train::Task> task(nn::Module& module) const override {
    const auto text_of = [tokenizer = tokenizer_](const std::vector<std::int64_t>& ids) {
      return tokenizer ? tokenizer->decode(ids) : fmt::format("{}", fmt::join(ids, " "));
    };
    return std::make_unique<train::TranslationTask>(module, train::TranslationTaskOptions{sizes_.end, options_.label_smoothing, text_of});
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
            {"data set", options_.text->dataset, Bearing::sample_order},
            {"configuration", options_.text->config, Bearing::state},
            {"length buckets", options_.text->buckets ? "on" : "off", Bearing::sample_order},
            {"input", fmt::format("at most {} tokens", options_.text->max_length), Bearing::setting}};
  }

 private:
  WorkloadOptions options_;
  models::TextSizes sizes_;
  std::shared_ptr<const datasets::Tokenizer> tokenizer_;  // of texts; null of data that are made up
  datasets::TranslationSplits data_;
};

}  // namespace

std::unique_ptr<Workload> translation_workload(const WorkloadOptions& options) { return std::make_unique<TranslationWorkload>(options); }

}  // namespace gemel::cli
