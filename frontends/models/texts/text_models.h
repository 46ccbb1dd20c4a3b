// Text models by name. Classifiers take ids int64 [N, T] and types int64 [N, T], padded at the end, and return logits [N, classes]. Language models take ids
// and return logits [N, T, vocabulary] of the token after each. Translators take a source int64 [N, S], with or without a target int64 [N, T] (transformer.h).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/files/safetensors.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/nn/layers/rnn.h"
#include "frontends/nn/module.h"

namespace gemel::models {

enum class TextKind { classifier, language_model, translator };

/// Properties of the texts that a model takes, from its configuration.
struct TextSizes {
  std::int64_t vocabulary, padding;  // tokens are 0..vocabulary-1; classifiers mask padding
  std::int64_t longest;              // most tokens of a text; 0: any number
  std::int64_t begin = 0, end = 0;   // tokens before and after a translation
};

struct TextOptions {
  std::string config = "base";                          // name, or path of a config.json
  std::int64_t classes = 2;                             // of a classifier
  std::optional<std::int64_t> vocabulary{}, padding{};  // replace the configuration's
  std::optional<double> dropout{};                      // replaces the rate of every dropout
  RecomputedParts recompute = RecomputedParts::none;
  nn::LstmComputation lstm = nn::LstmComputation::fused;  // of a model that has LSTMs
  std::optional<std::int64_t> begin{}, end{},
      longest{};  // in place of a translator's configuration's: what stands before a translation and behind it, how long it is at most
};

/// Names that `make_text` accepts.
std::vector<std::string_view> text_names();
/// @throws UsageError for an unknown name
TextKind text_kind(std::string_view name);
/// @throws UsageError for an unknown name or configuration  @throws DataError for a file that is not a configuration
TextSizes text_sizes(std::string_view name, const std::string& config);
/// Tells if a model has repeated blocks, which can be recomputed.
/// @throws UsageError for an unknown name
bool text_has_blocks(std::string_view name);
/// Whether it has LSTMs. @throws UsageError for an unknown name
bool text_has_lstm(std::string_view name);
/// Tokens of the vocabulary as a file has it: rows of its table of tokens. Empty where it has none. @throws UsageError for an unknown name
std::optional<std::int64_t> vocabulary_in(std::string_view name, std::span<const NamedSpec> file);
/// Makes a model without memory.
/// @throws as text_sizes, and for options that the model refuses
std::unique_ptr<nn::Module> make_text(std::string_view name, const TextOptions& options);

}  // namespace gemel::models
