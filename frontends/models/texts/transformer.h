// The transformer that translates: an encoder of a source and a decoder of a target. Layers, their names and layouts in files are those of torch.nn.Transformer
// (encoder.layers.0.self_attn.in_proj_weight, decoder.layers.0.multihead_attn.out_proj.bias, decoder.norm.weight and so on).
// One table of tokens, embedding.weight, serves source, target and the output, which is saved as output.weight too.
// Source: A. Vaswani et al., Attention is all you need, 2017; its section 3.4 shares the tables.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "frontends/nn/module.h"

namespace gemel::models {

/// Sizes under the names of torch.nn.Transformer's arguments; those of the paper's base model where nothing else is said.
struct TransformerConfig {
  std::int64_t vocab_size = 30522, d_model = 512, nhead = 8, num_encoder_layers = 6, num_decoder_layers = 6, dim_feedforward = 2048;
  std::int64_t pad_token_id = 0, bos_token_id = 1, eos_token_id = 2;  // behind a shorter source; before a target; behind it
  std::int64_t max_length = 128;                                      // tokens that a translation is ended after at the latest; not in files
  double dropout = 0.1, layer_norm_eps = 1e-5;
  bool norm_first = false;  // layers normalise what they read, not what they give
};

/// "tiny", "mini", "small", "base": 2, 4, 4 and 6 layers on each side, of widths 128, 256, 384 and 512; or what a config.json has in place of base's.
/// @throws UsageError for what is neither a name nor a file  @throws DataError for a file that is no configuration of a transformer, naming file and key
TransformerConfig transformer_config(const std::string& name_or_file);

/// A model that computes
/// - of a source int64 [N, S] and a target int64 [N, T]: the logits [N, T, vocab_size] of the token that follows each of the target's;
/// - of a source alone: its translation int64 [N, max_length], the likeliest token each time, of equals the first, from bos_token_id, which is left out, to
///   eos_token_id, behind which stands padding; and bool [N, 1], whether all logits that they were chosen by are finite. Each token is computed once;
///   there are as many steps as the longest translation has tokens.
/// Tokens of the source that are padding are not looked at. A target is padded behind, where what is causal does not look.
/// @throws UsageError for sizes that are not 1 or more, heads that do not divide the width, tokens out of the vocabulary, or a rate outside 0..1
std::unique_ptr<nn::Module> transformer(const TransformerConfig& config);

}  // namespace gemel::models
