// Private to the transformer: its encoder and decoder. Legend: N samples, S tokens of a source, T of a target, L those that a cache has room for, D the width.
#pragma once
#include "frontends/models/blocks.h"
#include "frontends/models/texts/transformer.h"
#include "frontends/nn/containers.h"

namespace gemel::models {

/// Of x [N, S, D] and the bias of scores that keeps queries from padding: what the source means [N, S, D].
class TransformerEncoder : public nn::Module {
 public:
  explicit TransformerEncoder(const TransformerConfig& config);

 protected:
  Values forward_values(Values in) override;

 private:
  nn::ModuleList& layers_;
  nn::LayerNorm& norm_;
};

/// What every layer of a decoder reads of the source.
struct TransformerMemory {
  Values keys_and_values;  // [2 layers], each [N, S, D]
  Value bias;              // of scores: keeps queries from padding
};
/// What a decoder that goes step by step made of the tokens before.
struct TransformerCache {
  Values keys_and_values;  // [2 layers], each [N, L, D]
  Value bias;              // of scores: keeps the query from places that are not filled yet
  Value here;              // bool [L, 1]: the place of this step's token
};

class TransformerDecoder : public nn::Module {
 public:
  explicit TransformerDecoder(const TransformerConfig& config);
  /// Of what the encoder gives.
  TransformerMemory memory(const Value& encoded, Value bias);
  /// Of a target x [N, T, D], each place seeing itself and those before it: [N, T, D].
  Value read(Value x, const TransformerMemory& memory);
  /// Of one token x [N, 1, D]: [N, 1, D], and the cache's keys and values with this token's.
  Values step(Value x, const TransformerMemory& memory, const TransformerCache& cache);

 protected:
  /// Of x and the tensors of a memory and, if it is a step, of a cache, in the order of their members.
  Values forward_values(Values in) override;

 private:
  nn::ModuleList& layers_;
  nn::LayerNorm& norm_;
};

}  // namespace gemel::models
