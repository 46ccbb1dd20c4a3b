// Text generation: a language model continues a text, token by token.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/philox.h"
#include "frontends/graph/compile.h"
#include "frontends/models/texts/gpt2.h"
#include "frontends/train/step.h"

namespace gemel::train {

/// Reads a text in parts and computes each token once: keys and values of earlier tokens are in a cache on the device. The cache's capacity doubles as needed,
/// so that the graph front end makes few plans.
class TextReader {
 public:
  /// Begins with an empty text. Puts the module, which must outlive this object, into evaluation mode.
  TextReader(Session& session, models::Gpt2& model, Frontend frontend, PassNames passes = parse_passes("all"));
  /// Reads more tokens.
  /// @param ids  one token or more
  /// @return logits [vocabulary] of the token after the last, valid until the next call
  /// @throws UsageError for no token, or more than the model has positions
  /// @throws DataError for a token that the vocabulary lacks
  std::span<const float> read(std::span<const std::int64_t> ids);
  /// Number of tokens read so far.
  std::int64_t length() const { return length_; }
  /// Capacity of the cache in tokens.
  std::int64_t capacity() const { return capacity_; }

 private:
  void make_room(std::int64_t length);

  Session& session_;
  models::Gpt2& model_;
  Frontend frontend_;
  graph::Function forward_;
  graph::Compiled compiled_;
  Values inputs_;  // of the model: ids, their positions, and the cache, which is reused
  std::vector<float> logits_;
  std::int64_t length_ = 0, capacity_ = 0;
};

struct Sampling {
  double temperature = 0;  // 0: the most likely token
  std::int64_t top_k = 0;  // number of most likely tokens to draw from; 0: all
  std::uint64_t seed = 1;  // of the draws
};

/// Chooses tokens. The same seed gives the same draws.
class Sampler {
 public:
  /// @throws UsageError for a temperature below 0 or not a number, or a top_k below 0
  explicit Sampler(const Sampling& sampling);
  /// Draws a token with the probabilities softmax(logits / temperature). Of equal logits the first is taken as the more likely.
  /// @throws DataError if a logit is not finite
  std::int64_t operator()(std::span<const float> logits);

 private:
  Sampling sampling_;
  PhiloxStream draws_;
};

}  // namespace gemel::train
