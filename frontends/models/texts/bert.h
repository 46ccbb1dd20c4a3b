// BERT: a transformer encoder over tokens, with Hugging Face's names and layouts.
// Source: J. Devlin et al., BERT: pre-training of deep bidirectional transformers for language understanding, 2018.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "frontends/nn/module.h"

namespace gemel::models {

/// Sizes under the names of Hugging Face's config.json, with the values of bert-base.
struct BertConfig {
  std::int64_t vocab_size = 30522, hidden_size = 768, num_hidden_layers = 12, num_attention_heads = 12, intermediate_size = 3072;
  std::int64_t max_position_embeddings = 512, type_vocab_size = 2, pad_token_id = 0;
  double hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1, layer_norm_eps = 1e-12, initializer_range = 0.02;
};

/// Returns the configuration "tiny", "mini", "small" or "base" (I. Turc et al., Well-read students learn better, 2019), or reads a config.json over base's
/// values.
/// @throws UsageError if it is neither a name nor a file  @throws DataError naming file and key if the file is not a BERT's configuration
BertConfig bert_config(const std::string& name_or_file);

/// Makes the encoder with its pooler and a linear layer over classes. Inputs: ids int64 [N, T] and types int64 [N, T]. Returns logits [N, classes]. Padding is
/// masked.
/// @throws UsageError for sizes that are not 1 or more, heads that do not divide the width, or rates outside 0..1
std::unique_ptr<nn::Module> bert_classifier(const BertConfig& config, std::int64_t classes);

}  // namespace gemel::models
