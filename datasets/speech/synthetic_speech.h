// Synthetic speech: features that depend on the characters, which can be learnt. It is the data set "synthetic" for models that take speech.
#pragma once
#include <cstdint>

#include "datasets/speech/speech_dataset.h"

namespace gemel::datasets {

struct SyntheticSpeechOptions {
  std::int64_t bands = 80;
  std::int64_t frames = 400;    // of the longest utterance; each has half of it or more
  std::int64_t stride = 4;      // frames for each class that the model writes
  std::int64_t samples = 2048;  // of the training split
  std::int64_t limit = 0;       // most samples of each split; 0: all
  std::uint64_t seed = 1;
  RowLengths lengths = RowLengths::of_all;
};

/// Transcripts are words of five letters. Each character lasts two strides, in which the bands around one that belongs to it are louder than noise.
/// @throws UsageError for fewer frames than two strides
SpeechSplits synthetic_speech(const SyntheticSpeechOptions& options);

}  // namespace gemel::datasets
