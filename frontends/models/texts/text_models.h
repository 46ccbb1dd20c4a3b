// Models of texts by name: classifiers, which take ids int64 [N, T] and types int64 [N, T], padded behind, and give logits [N, classes]; and
// language models, which take ids alone and give logits [N, T, vocabulary] of the token that follows each; and translators, which take a source int64 [N, S],
// alone or with a target int64 [N, T] (transformer.h).
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

/// What a configuration says of the texts that a model takes.
struct TextSizes {
  std::int64_t vocabulary, padding;  // tokens are 0..vocabulary-1; padding is not looked at by a classifier
  std::int64_t longest;              // tokens of a text at most; 0: any number
  std::int64_t begin = 0, end = 0;   // before a translation, and behind it
};

struct TextOptions {
  std::string config = "base";                          // a name, or a config.json
  std::int64_t classes = 2;                             // of a classifier
  std::optional<std::int64_t> vocabulary{}, padding{};  // in place of the configuration's
  std::optional<double> dropout{};                      // in place of every dropout's own rate
  RecomputedParts recompute = RecomputedParts::none;
  nn::LstmComputation lstm = nn::LstmComputation::fused;  // of a model that has LSTMs
  std::optional<std::int64_t> begin{}, end{},
      longest{};  // in place of a translator's configuration's: what stands before a translation and behind it, how long it is at most
};

/// All names that `make_text` knows.
std::vector<std::string_view> text_names();
/// @throws UsageError for an unknown name
TextKind text_kind(std::string_view name);
/// @throws UsageError for an unknown name or configuration, DataError for a file that is none
TextSizes text_sizes(std::string_view name, const std::string& config);
/// Whether it has repeated blocks, which may be computed again. @throws UsageError for an unknown name
bool text_has_blocks(std::string_view name);
/// Whether it has LSTMs. @throws UsageError for an unknown name
bool text_has_lstm(std::string_view name);
/// Tokens of the vocabulary as a file has it: rows of its table of tokens. Empty where it has none. @throws UsageError for an unknown name
std::optional<std::int64_t> vocabulary_in(std::string_view name, std::span<const NamedSpec> file);
/// A model without memory. @throws as text_sizes, and for what the model refuses
std::unique_ptr<nn::Module> make_text(std::string_view name, const TextOptions& options);

}  // namespace gemel::models
