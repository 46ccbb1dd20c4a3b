// Text classifiers lstm_classifier and gru_classifier: embeddings, a bidirectional LSTM or GRU, and a linear layer over the maximum and the mean of its states.
// Source: A. Conneau et al., Supervised learning of universal sentence representations, 2017 (BiLSTM with max pooling).
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "frontends/nn/layers/rnn.h"
#include "frontends/nn/module.h"

namespace gemel::models {

/// The layer that reads the embeddings.
enum class RecurrentKind { lstm, gru };

/// Sizes under their names in a config.json, with the values of "base".
struct RecurrentClassifierConfig {
  std::int64_t vocab_size = 30522, embedding_size = 256, hidden_size = 512, num_hidden_layers = 2, pad_token_id = 0;  // hidden_size: of each direction
  double embedding_dropout_prob = 0.3, hidden_dropout_prob = 0.5;  // of embeddings; between layers and before the classifier
  double initializer_range = 0.1;                                  // standard deviation of embeddings
};

/// Returns the configuration "tiny", "mini", "small" or "base", or reads a config.json over base's values.
/// @throws UsageError if it is neither a name nor a file  @throws DataError naming file and key if the file is not such a configuration
RecurrentClassifierConfig recurrent_classifier_config(RecurrentKind kind, const std::string& name_or_file);

/// Makes the model. Inputs: ids int64 [N, T], padded at the end, and types int64 [N, T], which are ignored. Returns logits [N, classes]. A text ends at its
/// last id that is not padding.
/// @param computation  of the LSTM; a GRU has one alone
/// @throws UsageError for sizes that are not 1 or more, or rates outside 0..1
std::unique_ptr<nn::Module> recurrent_classifier(RecurrentKind kind, const RecurrentClassifierConfig& config, std::int64_t classes,
                                                 nn::LstmComputation computation = nn::LstmComputation::fused);

}  // namespace gemel::models
