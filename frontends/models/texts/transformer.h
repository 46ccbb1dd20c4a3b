// Transformer for translation: an encoder of the source and a decoder of the target. Layers, names and layouts are those of torch.nn.Transformer
// (encoder.layers.0.self_attn.in_proj_weight, decoder.layers.0.multihead_attn.out_proj.bias, decoder.norm.weight and so on). One token embedding,
// embedding.weight, is used for source, target and output, and is also saved as output.weight.
// Source: A. Vaswani et al., Attention is all you need, 2017; its section 3.4 shares the tables.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "frontends/nn/module.h"

namespace gemel::models {

/// Sizes under the names of torch.nn.Transformer's arguments, with the values of the paper's base model.
struct TransformerConfig {
  std::int64_t vocab_size = 30522, d_model = 512, nhead = 8, num_encoder_layers = 6, num_decoder_layers = 6, dim_feedforward = 2048;
  std::int64_t pad_token_id = 0, bos_token_id = 1, eos_token_id = 2;  // after a shorter source; before a target; after it
  std::int64_t max_length = 128;                                      // most tokens of a translation; not in files
  double dropout = 0.1, layer_norm_eps = 1e-5;
  bool norm_first = false;  // layers normalise their input instead of their output
};

/// Returns the configuration "tiny", "mini", "small" or "base" (2, 4, 4 and 6 layers on each side, of widths 128, 256, 384 and 512), or reads a config.json
/// over base's values.
/// @throws UsageError if it is neither a name nor a file  @throws DataError naming file and key if the file is not a transformer's configuration
TransformerConfig transformer_config(const std::string& name_or_file);

/// Makes a model that computes
/// - from a source int64 [N, S] and a target int64 [N, T]: logits [N, T, vocab_size] of the token after each of the target's;
/// - from a source alone: its greedy translation int64 [N, max_length] from bos_token_id (left out) to eos_token_id, followed by padding, with the first of
/// equal logits; and bool [N, 1], true if all logits used are finite. Each token is computed once, in as many steps as the longest translation has tokens.
/// Padding of the source is masked. Targets are padded at the end, which causal attention does not see.
/// @throws UsageError for sizes that are not 1 or more, heads that do not divide the width, tokens out of the vocabulary, or a rate outside 0..1
std::unique_ptr<nn::Module> transformer(const TransformerConfig& config);

}  // namespace gemel::models
