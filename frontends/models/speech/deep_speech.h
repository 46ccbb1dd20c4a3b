// A recogniser of speech after Deep Speech 2: convolutions along time, recurrent layers both ways, and a linear layer over characters.
// Source: D. Amodei et al., Deep Speech 2: end-to-end speech recognition in English and Mandarin, 2015.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "frontends/nn/module.h"

namespace gemel::models {

/// Sizes and rates, under these names in a config.json; those of base.
struct SpeechConfig {
  std::int64_t sample_rate = 16000, bands = 80;    // of the features: samples a second of the sound, numbers a frame
  std::int64_t stride = 2;                         // frames for each class that is written: 2, or 4
  std::int64_t channels = 512;                     // of each of two convolutions
  std::int64_t hidden_size = 512, num_layers = 5;  // of the recurrent layers, each way
  double dropout = 0.1;                            // between them and behind the last
};

/// "tiny", "mini", "small", "base"; or what a config.json has in place of base's.
/// @throws UsageError for what is neither a name nor a file  @throws DataError for a file that is no configuration of a model of speech, naming file and key
SpeechConfig speech_config(const std::string& name_or_file);

/// Two convolutions over 11 frames, each followed by layer normalisation and min(max(x, 0), 20); gated recurrent units both ways; a linear layer. Normalisation
/// is over a frame's channels, not over the batch as in the paper: so a sample's result does not depend on those beside it, on padding or on ranks.
/// Inputs: features float32 [N, T, bands] and frames int64 [N], 1..T: what lies behind them is not looked at. Gives log-probabilities float32 [N, P, classes],
/// P = ceil(T / stride), and how many of them count, int64 [N].
/// Parameters: conv.0.weight, conv.0.bias, norm.0.weight, norm.0.bias, the same of 1, rnn.weight_ih_l0 and what else PyTorch's GRU names, fc.weight, fc.bias.
/// @throws UsageError for sizes or rates out of range
std::unique_ptr<nn::Module> speech(const SpeechConfig& config, std::int64_t classes);

}  // namespace gemel::models
