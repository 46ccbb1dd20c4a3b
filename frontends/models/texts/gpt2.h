// GPT-2: a transformer decoder over tokens, with Hugging Face's names and layouts.
// Source: A. Radford et al., Language models are unsupervised multitask learners, 2019.
#pragma once
#include <cstdint>
#include <string>

#include "frontends/nn/containers.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"

namespace gemel::models {

/// Sizes under the names of Hugging Face's config.json, with the values of gpt2.
struct Gpt2Config {
  std::int64_t vocab_size = 50257, n_positions = 1024, n_embd = 768, n_layer = 12, n_head = 12;
  std::int64_t n_inner = 0;  // width of a block's MLP; 0: four times n_embd
  double embd_pdrop = 0.1, attn_pdrop = 0.1, resid_pdrop = 0.1, layer_norm_epsilon = 1e-5, initializer_range = 0.02;
};

/// Returns the configuration "tiny", "mini" or "small" (with layers and widths of the BERTs of these names) or "base" (gpt2, 124 million parameters), or reads
/// a config.json over base's values.
/// @throws UsageError if it is neither a name nor a file  @throws DataError naming file and key if the file is not a GPT-2's configuration
Gpt2Config gpt2_config(const std::string& name_or_file);

/// A language model whose output layer is its token embedding. It computes
/// - from ids int64 [N, T]: logits [N, T, vocab_size] of the token after each;
/// - from ids [N, T], their positions int64 [T], which are consecutive, and a cache (see `cache`): logits [N, vocab_size] of the token after the last. It reads
/// keys and values of earlier positions from the cache and writes those of the new ones, so that each token is computed once.
class Gpt2 : public nn::Module {
 public:
  /// @throws UsageError for sizes that are not 1 or more, heads that do not divide the width, or rates outside 0..1
  explicit Gpt2(const Gpt2Config& config);
  const Gpt2Config& config() const { return config_; }
  std::string describe() const override { return "Gpt2"; }
  /// Accepts files without "transformer." before names and without output layer (it is the token embedding), and ignores attention masks, which are the same in
  /// every file.
  std::string name_of(const std::string& in_file) const override;
  /// Returns the specs of a cache: keys and values of each layer, [N, positions, n_embd], initially zero.
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
