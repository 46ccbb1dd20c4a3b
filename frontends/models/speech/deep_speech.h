// Speech recognition after Deep Speech 2: convolutions along time, bidirectional recurrent layers, and a linear layer over characters.
// Source: D. Amodei et al., Deep Speech 2: end-to-end speech recognition in English and Mandarin, 2015.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "frontends/nn/module.h"

namespace gemel::models {

/// Sizes and rates, under their names in a config.json, with the values of base.
struct SpeechConfig {
  std::int64_t sample_rate = 16000, bands = 80;    // of the features: samples a second, values a frame
  std::int64_t stride = 2;                         // frames for each class that is written: 2 or 4
  std::int64_t channels = 512;                     // of each of two convolutions
  std::int64_t hidden_size = 512, num_layers = 5;  // of the recurrent layers, in each direction
  double dropout = 0.1;                            // between the recurrent layers and after the last
};

/// Returns the configuration "tiny", "mini", "small" or "base", or reads a config.json over base's values.
/// @throws UsageError if it is neither a name nor a file  @throws DataError naming file and key if the file is not a speech model's configuration
SpeechConfig speech_config(const std::string& name_or_file);

/// Makes the model: two convolutions over 11 frames, each followed by layer normalisation and min(max(x, 0), 20); bidirectional gated recurrent units; a linear
/// layer. Normalisation is over a frame's channels, not over the batch as in the paper, so that a sample's result does not depend on other samples, padding or
/// ranks.
/// Inputs: features float32 [N, T, bands] and frames int64 [N], 1..T; later frames are not read. Returns log-probabilities float32 [N, P, classes], P = ceil(T
/// / stride), and their valid number for each sample, int64 [N].
/// Parameters: conv.0.weight, conv.0.bias, norm.0.weight, norm.0.bias, the same of 1, rnn.weight_ih_l0 and the other names of PyTorch's GRU, fc.weight,
/// fc.bias.
/// @throws UsageError for sizes or rates out of range
std::unique_ptr<nn::Module> speech(const SpeechConfig& config, std::int64_t classes);

}  // namespace gemel::models
