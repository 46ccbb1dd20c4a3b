// Workloads of language models: running text, in blocks of tokens.
#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "datasets/texts/open_tokenizer.h"
#include "datasets/texts/token_blocks.h"
#include "engine/base/error.h"
#include "frontends/domains/workload_kinds.h"
#include "frontends/models/texts/text_models.h"
#include "frontends/train/tasks/language_task.h"

namespace gemel::cli {
namespace {

class LanguageWorkload : public Workload {
 public:
  explicit LanguageWorkload(WorkloadOptions options) : options_(std::move(options)) {
    const WorkloadOptions::Text& text = *options_.text;
    const models::TextSizes sizes = models::text_sizes(options_.model, text.config);
    if (text.max_length > sizes.longest)
      throw UsageError(fmt::format("{}: {} tokens for a model of {} positions; accepted: at most as many", text.length_option, text.max_length, sizes.longest));
    if (text.dataset == kSynthetic) {
      data_ = datasets::synthetic_tokens({sizes.vocabulary, text.max_length, text.samples, text.seed});
      if (text.limit > 0)
        for (const auto& split : {data_.train.get(), data_.validation.get()}) split->keep(text.limit);
    } else {
      const auto tokenizer = datasets::open_tokenizer(text.vocabulary, text.cased ? datasets::Letters::kept : datasets::Letters::lower);
      data_ = datasets::open_running_text(*tokenizer, {text.folder, text.max_length, text.limit});
    }
  }
  std::string title() const override { return fmt::format("{}-{}", options_.model, std::filesystem::path(options_.text->config).stem().string()); }
  const datasets::Dataset& train_data() const override { return *data_.train; }
  const datasets::Dataset* validation_data() const override { return data_.validation.get(); }
  std::string extent() const override {
    return fmt::format("{} blocks of {} tokens, a vocabulary of {}", data_.train->size(), tokens(), data_.train->classes());
  }
  std::unique_ptr<nn::Module> model(const ModelChanges& changes) const override {
    return models::make_text(
        options_.model, {.config = options_.text->config, .vocabulary = data_.train->classes(), .dropout = changes.dropout, .recompute = changes.recompute});
  }
  std::unique_ptr<train::Task> task(nn::Module& module) const override { return std::make_unique<train::LanguageTask>(module); }
  Specs batch(std::int64_t samples) const override { return {i64({samples, tokens()}), i64({samples, tokens()})}; }
  std::int64_t tokens() const override { return options_.text->max_length; }
  /// Biases and what normalises do not decay.
  std::vector<optim::Group> groups(const ParameterSet& parameters) const override { return optim::no_decay_on_vectors(parameters); }
  train::RunIdentity identity() const override {
    using train::Bearing;
    return {{"vocabulary", std::to_string(data_.train->classes()), Bearing::state},
            {"data set", options_.text->dataset, Bearing::sample_order},
            {"configuration", options_.text->config, Bearing::state},
            {"input", fmt::format("{} tokens", tokens()), Bearing::sample_order}};
  }

 private:
  WorkloadOptions options_;
  datasets::TokenBlockSplits data_;
};

}  // namespace

std::unique_ptr<Workload> language_workload(const WorkloadOptions& options) { return std::make_unique<LanguageWorkload>(options); }

}  // namespace gemel::cli
