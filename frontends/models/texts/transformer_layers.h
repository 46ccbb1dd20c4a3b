// Encoder and decoder, private to the transformer. Legend: N samples, S source tokens, T target tokens, L capacity of a cache, D width.
#pragma once
#include "frontends/models/blocks.h"
#include "frontends/models/texts/transformer.h"
#include "frontends/nn/containers.h"

namespace gemel::models {

/// Encodes x [N, S, D], with a bias of attention scores that masks padding; returns [N, S, D].
class TransformerEncoder : public nn::Module {
 public:
  explicit TransformerEncoder(const TransformerConfig& config);

 protected:
  Values forward_values(Values in) override;

 private:
  nn::ModuleList& layers_;
  nn::LayerNorm& norm_;
};

/// Keys and values of the source, read by every layer of a decoder.
struct TransformerMemory {
  Values keys_and_values;  // [2 layers], each [N, S, D]
  Value bias;              // of scores: masks padding
};
/// Keys and values of the tokens before, for a decoder that runs step by step.
struct TransformerCache {
  Values keys_and_values;  // [2 layers], each [N, L, D]
  Value bias;              // of scores: masks positions that are not filled yet
  Value here;              // bool [L, 1]: position of this step's token
};

class TransformerDecoder : public nn::Module {
 public:
  explicit TransformerDecoder(const TransformerConfig& config);
  /// Computes the keys and values of the encoder's output.
  TransformerMemory memory(const Value& encoded, Value bias);
  /// Decodes a target x [N, T, D] with causal attention: [N, T, D].
  Value read(Value x, const TransformerMemory& memory);
  /// Decodes one token x [N, 1, D]; returns [N, 1, D], and the cache's keys and values with this token's.
  Values step(Value x, const TransformerMemory& memory, const TransformerCache& cache);

 protected:
  /// Takes x, the tensors of a memory and, for a step, of a cache, in the order of their members.
  Values forward_values(Values in) override;

 private:
  nn::ModuleList& layers_;
  nn::LayerNorm& norm_;
};

}  // namespace gemel::models
