#include "frontends/models/texts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "engine/base/error.h"
#include "frontends/models/bert.h"

namespace gemel::models {
namespace {

struct Named {
  std::string_view name, token_table;
  TextSizes (*sizes)(const std::string& config);
  std::unique_ptr<nn::Module> (*make)(const TextOptions& options);
};

std::unique_ptr<nn::Module> bert(const TextOptions& o) {
  BertConfig c = bert_config(o.config);
  c.vocab_size = o.vocabulary.value_or(c.vocab_size);
  c.pad_token_id = o.padding.value_or(c.pad_token_id);
  if (o.dropout) c.hidden_dropout_prob = c.attention_probs_dropout_prob = *o.dropout;
  auto model = bert_classifier(c, o.classes);
  if (o.recompute == RecomputedParts::blocks) recompute_blocks(*model);
  return model;
}

constexpr std::array<Named, 1> kModels{{{"bert", "bert.embeddings.word_embeddings.weight",
                                         [](const std::string& config) {
                                           const BertConfig c = bert_config(config);
                                           return TextSizes{c.vocab_size, c.pad_token_id, c.max_position_embeddings};
                                         },
                                         bert}}};

const Named& named(std::string_view name) {
  const auto* found = std::ranges::find(kModels, name, &Named::name);
  if (found == kModels.end()) throw UsageError(fmt::format("model: {} takes no texts; accepted: {}", name, fmt::join(text_names(), ", ")));
  return *found;
}

}  // namespace

std::vector<std::string_view> text_names() {
  std::vector<std::string_view> out;
  for (const Named& m : kModels) out.push_back(m.name);
  return out;
}

TextSizes text_sizes(std::string_view name, const std::string& config) { return named(name).sizes(config); }
std::string_view token_table(std::string_view name) { return named(name).token_table; }
std::unique_ptr<nn::Module> make_text(std::string_view name, const TextOptions& options) { return named(name).make(options); }

}  // namespace gemel::models
