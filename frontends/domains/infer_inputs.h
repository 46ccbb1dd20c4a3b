// What `gemel infer` computes on, batch by batch.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "datasets/speech/log_mel.h"
#include "datasets/texts/tokenizer.h"
#include "engine/core/session.h"

namespace gemel::domains {

class InferInputs {
 public:
  virtual ~InferInputs() = default;
  virtual std::int64_t count() const = 0;
  /// As the model takes them. @param begin  of the samples; with `count` none is beyond count()
  virtual Values batch(Session& session, std::int64_t begin, std::int64_t count) const = 0;
};

/// @param channels  gets those of the pictures  @throws DataError unless it is float32 [N, C, H, W]
std::unique_ptr<InferInputs> pictures_of(const std::filesystem::path& npy, std::int64_t& channels);
/// @throws DataError unless it is int64 [N, T] of tokens 0..vocabulary-1, T at most `longest`; 0: any
std::unique_ptr<InferInputs> tokens_of(const std::filesystem::path& npy, std::int64_t vocabulary, std::int64_t longest);
/// @param tokens  of a text  @param padding  behind shorter ones  @throws what `tokens` throws
std::unique_ptr<InferInputs> tokens_of(const std::vector<std::string>& texts, std::int64_t padding,
                                       const std::function<datasets::Tokens(const std::string&)>& tokens);
/// WAV files, all padded to the longest. @throws DataError as datasets::open_sounds
std::unique_ptr<InferInputs> sounds_of(const std::vector<std::string>& wavs, const datasets::LogMelOptions& features);

}  // namespace gemel::domains
