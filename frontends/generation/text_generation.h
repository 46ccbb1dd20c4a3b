// Generation: a language model goes on from a text, token by token.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/philox.h"
#include "frontends/graph/compile.h"
#include "frontends/models/texts/gpt2.h"
#include "frontends/train/step.h"

namespace gemel::train {

/// Reads a text piece by piece and computes each token once: what layers make of those before lies in a cache on the device. The cache's
/// capacity doubles as it fills, so that the graph front end makes few plans.
class TextReader {
 public:
  /// Puts the module, which must outlive this, into evaluation mode. A text is empty at first.
  TextReader(Session& session, models::Gpt2& model, Frontend frontend, PassNames passes = parse_passes("all"));
  /// Reads on. @param ids  one token or more  @return logits [vocabulary] of the token that follows the last,
  /// valid until the next call
  /// @throws UsageError for no token, or more than there are positions for  @throws DataError for one that the vocabulary has not
  std::span<const float> read(std::span<const std::int64_t> ids);
  /// Tokens read so far.
  std::int64_t length() const { return length_; }
  /// Places of the cache.
  std::int64_t capacity() const { return capacity_; }

 private:
  void make_room(std::int64_t length);

  Session& session_;
  models::Gpt2& model_;
  Frontend frontend_;
  graph::Function forward_;
  graph::Compiled compiled_;
  Values inputs_;  // of the model: ids, their places, and the cache, which stays
  std::vector<float> logits_;
  std::int64_t length_ = 0, capacity_ = 0;
};

struct Sampling {
  double temperature = 0;  // 0: the likeliest token
  std::int64_t top_k = 0;  // only the likeliest so many are drawn from; 0: all
  std::uint64_t seed = 1;  // of the draws
};

/// Chooses tokens. The same draws with the same seed.
class Sampler {
 public:
  /// @throws UsageError for a temperature that is below 0 or no number, or a top_k below 0
  explicit Sampler(const Sampling& sampling);
  /// A token drawn with the probabilities softmax(logits / temperature). The first of equals is the likelier.
  /// @throws DataError where a logit is not finite
  std::int64_t operator()(std::span<const float> logits);

 private:
  Sampling sampling_;
  PhiloxStream draws_;
};

}  // namespace gemel::train
