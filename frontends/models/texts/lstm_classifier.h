// A classifier of texts: embeddings, an LSTM that reads them both ways, and a linear layer over what its states are at most and on average.
// Source: A. Conneau et al., Supervised learning of universal sentence representations, 2017 (BiLSTM with max pooling).
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "frontends/nn/layers/rnn.h"
#include "frontends/nn/module.h"

namespace gemel::models {

/// Sizes under the names of config.json; those of "base" where nothing else is said.
struct LstmClassifierConfig {
  std::int64_t vocab_size = 30522, embedding_size = 256, hidden_size = 512, num_hidden_layers = 2, pad_token_id = 0;  // hidden_size: of each direction
  double embedding_dropout_prob = 0.3, hidden_dropout_prob = 0.5;  // of embeddings; between layers and before the classifier
  double initializer_range = 0.1;                                  // standard deviation of embeddings
};

/// "tiny", "mini", "small", "base"; or what a config.json has in place of base's.
/// @throws UsageError for what is neither a name nor a file  @throws DataError for a file that is no such configuration, naming file and key
LstmClassifierConfig lstm_classifier_config(const std::string& name_or_file);

/// Inputs: ids int64 [N, T], padded behind, and types int64 [N, T], which are not looked at; gives logits [N, classes]. A text ends at its last id that
/// is not padding.
/// @throws UsageError for sizes that are not 1 or more, or rates outside 0..1
std::unique_ptr<nn::Module> lstm_classifier(const LstmClassifierConfig& config, std::int64_t classes,
                                            nn::LstmComputation computation = nn::LstmComputation::fused);

}  // namespace gemel::models
