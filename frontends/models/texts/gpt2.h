// GPT-2: a decoder of transformer blocks over tokens, under Hugging Face's names and in its layouts.
// Source: A. Radford et al., Language models are unsupervised multitask learners, 2019.
#pragma once
#include <cstdint>
#include <string>

#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"

namespace gemel::models {

/// Sizes under the names of Hugging Face's config.json; those of gpt2 where nothing else is said.
struct Gpt2Config {
  std::int64_t vocab_size = 50257, n_positions = 1024, n_embd = 768, n_layer = 12, n_head = 12;
  std::int64_t n_inner = 0;  // width within a block; 0: four times n_embd
  double embd_pdrop = 0.1, attn_pdrop = 0.1, resid_pdrop = 0.1, layer_norm_epsilon = 1e-5, initializer_range = 0.02;
};

/// "tiny", "mini", "small" with the layers and widths of the BERTs called so, and "base": gpt2, of 124 million parameters; or what a config.json has in place
/// of gpt2's.
/// @throws UsageError for what is neither a name nor a file  @throws DataError for a file that is no configuration of a GPT-2, naming file and key
Gpt2Config gpt2_config(const std::string& name_or_file);

/// A language model, whose head is its table of tokens. It computes
/// - of ids int64 [N, T]: the logits [N, T, vocab_size] of the token that follows each;
/// - of ids [N, T], their places int64 [T], which follow each other, and a cache (see `cache`): the logits [N, vocab_size] of the token that
///   follows the last. It reads what the cache holds of the places before, and writes what it makes of these: so each token is computed once.
class Gpt2 : public nn::Module {
 public:
  /// @throws UsageError for sizes that are not 1 or more, heads that do not divide the width, or rates outside 0..1
  explicit Gpt2(const Gpt2Config& config);
  const Gpt2Config& config() const { return config_; }
  std::string describe() const override { return "Gpt2"; }
  /// Files may have no "transformer." before names, no head, as it is the table of tokens, and tables of attention that are the same in every file.
  std::string name_of(const std::string& in_file) const override;
  /// Specs of a cache for so many samples and places: keys and values of each layer, [N, places, n_embd], which begin as zeros.
  Specs cache(std::int64_t samples, std::int64_t places) const;

 protected:
  Values forward_values(Values in) override;

 private:
  void check(const Values& in) const;

  Gpt2Config config_;
  nn::ModuleDict& transformer_;
  nn::Embedding &tokens_, &positions_;
  nn::Dropout& dropout_;
  nn::ModuleList& blocks_;
  nn::LayerNorm& norm_;
  nn::TiedLinear& head_;
};

}  // namespace gemel::models
