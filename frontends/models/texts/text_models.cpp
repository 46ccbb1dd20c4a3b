#include "frontends/models/texts/text_models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "engine/base/error.h"
#include "frontends/models/texts/bert.h"
#include "frontends/models/texts/gpt2.h"
#include "frontends/models/texts/recurrent_classifier.h"
#include "frontends/models/texts/transformer.h"
#include "frontends/nn/state/wrapper_prefixes.h"

namespace gemel::models {
namespace {

struct Named {
  std::string_view name;
  TextKind kind;
  std::string_view token_table;
  std::string_view tied_head;  // of the same contents, and the only one in some files; empty: none
  bool has_blocks;
  TextSizes (*sizes)(const std::string& config);
  std::unique_ptr<nn::Module> (*make)(const TextOptions& options);
};

std::unique_ptr<nn::Module> bert(const TextOptions& o) {
  BertConfig c = bert_config(o.config);
  c.vocab_size = o.vocabulary.value_or(c.vocab_size);
  c.pad_token_id = o.padding.value_or(c.pad_token_id);
  if (o.dropout) c.hidden_dropout_prob = c.attention_probs_dropout_prob = *o.dropout;
  return bert_classifier(c, o.classes);
}
TextSizes bert_sizes(const std::string& config) {
  const BertConfig c = bert_config(config);
  return {c.vocab_size, c.pad_token_id, c.max_position_embeddings};
}

std::unique_ptr<nn::Module> gpt2(const TextOptions& o) {
  Gpt2Config c = gpt2_config(o.config);
  c.vocab_size = o.vocabulary.value_or(c.vocab_size);
  if (o.dropout) c.embd_pdrop = c.attn_pdrop = c.resid_pdrop = *o.dropout;
  return std::make_unique<Gpt2>(c);
}
TextSizes gpt2_sizes(const std::string& config) {
  const Gpt2Config c = gpt2_config(config);
  return {c.vocab_size, 0, c.n_positions};
}

template <RecurrentKind kind>
std::unique_ptr<nn::Module> recurrent(const TextOptions& o) {
  RecurrentClassifierConfig c = recurrent_classifier_config(kind, o.config);
  c.vocab_size = o.vocabulary.value_or(c.vocab_size);
  c.pad_token_id = o.padding.value_or(c.pad_token_id);
  if (o.dropout) c.embedding_dropout_prob = c.hidden_dropout_prob = *o.dropout;
  return recurrent_classifier(kind, c, o.classes, o.lstm);
}
template <RecurrentKind kind>
TextSizes recurrent_sizes(const std::string& config) {
  const RecurrentClassifierConfig c = recurrent_classifier_config(kind, config);
  return {c.vocab_size, c.pad_token_id, 0};
}
constexpr auto lstm = recurrent<RecurrentKind::lstm>, gru = recurrent<RecurrentKind::gru>;
constexpr auto lstm_sizes = recurrent_sizes<RecurrentKind::lstm>, gru_sizes = recurrent_sizes<RecurrentKind::gru>;

std::unique_ptr<nn::Module> transformer(const TextOptions& o) {
  TransformerConfig c = transformer_config(o.config);
  c.vocab_size = o.vocabulary.value_or(c.vocab_size);
  c.pad_token_id = o.padding.value_or(c.pad_token_id);
  c.bos_token_id = o.begin.value_or(c.bos_token_id);
  c.eos_token_id = o.end.value_or(c.eos_token_id);
  c.max_length = o.longest.value_or(c.max_length);
  c.dropout = o.dropout.value_or(c.dropout);
  return models::transformer(c);
}
TextSizes transformer_sizes(const std::string& config) {
  const TransformerConfig c = transformer_config(config);
  return {c.vocab_size, c.pad_token_id, 0, c.bos_token_id, c.eos_token_id};
}

constexpr std::array<Named, 5> kModels{{{"bert", TextKind::classifier, "bert.embeddings.word_embeddings.weight", "", true, bert_sizes, bert},
                                        {"lstm_classifier", TextKind::classifier, "embedding.weight", "", false, lstm_sizes, lstm},
                                        {"gru_classifier", TextKind::classifier, "embedding.weight", "", false, gru_sizes, gru},
                                        {"gpt2", TextKind::language_model, "transformer.wte.weight", "lm_head.weight", true, gpt2_sizes, gpt2},
                                        {"transformer", TextKind::translator, "embedding.weight", "output.weight", true, transformer_sizes, transformer}}};

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

TextKind text_kind(std::string_view name) { return named(name).kind; }
bool text_has_blocks(std::string_view name) { return named(name).has_blocks; }
bool text_has_lstm(std::string_view name) { return named(name).make == lstm; }
TextSizes text_sizes(std::string_view name, const std::string& config) { return named(name).sizes(config); }
std::optional<std::int64_t> vocabulary_in(std::string_view name, std::span<const NamedSpec> file) {
  const Named& model = named(name);
  for (const NamedSpec& t : file) {  // some have no "bert." or "transformer." before their names
    const std::string_view own = nn::without_wrappers(t.name);
    const bool is_table = own == model.token_table || own == model.tied_head || model.token_table.ends_with("." + std::string(own));
    if (is_table && !t.spec.shape.empty()) return t.spec.shape[0];
  }
  return {};
}
std::unique_ptr<nn::Module> make_text(std::string_view name, const TextOptions& options) {
  auto model = named(name).make(options);
  if (options.recompute == RecomputedParts::blocks) recompute_blocks(*model);
  return model;
}

}  // namespace gemel::models
