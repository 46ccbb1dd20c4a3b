// Workloads of texts: classifiers of tokens.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "datasets/texts/glue.h"
#include "datasets/texts/open_tokenizer.h"
#include "datasets/texts/synthetic_texts.h"
#include "engine/base/error.h"
#include "frontends/domains/workload_kinds.h"
#include "frontends/models/texts/text_models.h"

namespace gemel::cli {
namespace {

class TextWorkload : public Workload {
 public:
  explicit TextWorkload(WorkloadOptions options) : options_(std::move(options)), sizes_(models::text_sizes(options_.model, options_.text->config)) {
    const WorkloadOptions::Text& text = *options_.text;
    if (sizes_.longest > 0 && text.max_length > sizes_.longest)
      throw UsageError(
          fmt::format("{}: {} tokens for a model of {} positions; accepted: at most as many", text.length_option, text.max_length, sizes_.longest));
    const auto lengths = text.buckets ? datasets::RowLengths::of_batch : datasets::RowLengths::of_all;
    if (text.dataset == kSynthetic) {
      data_ = datasets::synthetic_texts(
          {sizes_.vocabulary, sizes_.padding, std::max<std::int64_t>(text.classes, 2), text.max_length, text.samples, text.seed, lengths});
      if (text.limit > 0)
        for (const auto& split : {data_.train.get(), data_.validation.get()}) split->keep(text.limit);
      return;
    }
    const auto tokenizer = datasets::open_tokenizer(text.vocabulary, text.cased ? datasets::Letters::kept : datasets::Letters::lower);
    sizes_.vocabulary = tokenizer->vocabulary().size();
    sizes_.padding = tokenizer->padding();
    data_ = datasets::open_glue(text.dataset, *tokenizer, {text.folder, text.max_length, text.limit, lengths});
  }
  std::string title() const override { return fmt::format("{}-{}", options_.model, std::filesystem::path(options_.text->config).stem().string()); }
  const datasets::Dataset& train_data() const override { return *data_.train; }
  const datasets::Dataset* validation_data() const override { return data_.validation.get(); }
  std::unique_ptr<nn::Module> model(const ModelChanges& changes) const override {
    return models::make_text(options_.model, {options_.text->config, classes(), sizes_.vocabulary, sizes_.padding, changes.dropout, changes.recompute});
  }
  std::unique_ptr<train::Task> task(nn::Module& module) const override {
    const std::string first = options_.text->dataset == "cola" ? "matthews" : options_.text->dataset == "mrpc" ? "f1" : "accuracy";
    return std::make_unique<train::ClassificationTask>(module, classes(), train::ClassificationOptions{{"ids", "types"}, first, options_.label_smoothing});
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
            {"data set", options_.text->dataset, Bearing::sample_order},
            {"configuration", options_.text->config, Bearing::state},
            {"length buckets", options_.text->buckets ? "on" : "off", Bearing::sample_order},
            {"input", fmt::format("at most {} tokens", options_.text->max_length), Bearing::setting}};
  }

 private:
  std::int64_t classes() const { return std::max(options_.text->classes, data_.train->classes()); }

  WorkloadOptions options_;
  models::TextSizes sizes_;
  datasets::TextSplits data_;
};

}  // namespace

std::unique_ptr<Workload> text_workload(const WorkloadOptions& options) { return std::make_unique<TextWorkload>(options); }

}  // namespace gemel::cli
