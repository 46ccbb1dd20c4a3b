#include "datasets/speech/synthetic_speech.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "datasets/speech/characters.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/base/philox.h"

namespace gemel::datasets {
namespace {

constexpr std::int64_t kValidationSamples = 256, kLetters = 5;  // kLetters: of a word
constexpr double kLoud = 3;

/// [frames, bands]: noise of 0..1, and bells about a band of each character.
struct Sung {
  std::string text;
  std::int64_t frames, bands, frames_of_character;
  std::uint64_t seed;

  std::vector<float> operator()() const {
    PhiloxStream stream(seed, stream_hash("synthetic features"));
    std::vector<float> out(at(frames * bands));
    const double width = static_cast<double>(bands) / static_cast<double>(kCharacterClasses);
    for (std::int64_t t = 0; t < frames; ++t) {
      const auto place = std::min(at(t / frames_of_character), text.size() - 1);
      const double centre = (static_cast<double>(class_of(text[place])) + 0.5) * width;
      for (std::int64_t b = 0; b < bands; ++b) {
        const double away = (static_cast<double>(b) + 0.5 - centre) / (width / 2);
        out[at(t * bands + b)] = unit_float(stream.next()) + static_cast<float>(kLoud * std::exp(-away * away));
      }
    }
    return out;
  }
};

std::unique_ptr<Speech> split_of(const SyntheticSpeechOptions& o, std::int64_t samples, std::uint32_t split) {
  auto out = std::make_unique<Speech>(Speech::Options{"synthetic", o.bands, o.lengths});
  PhiloxStream stream(o.seed ^ std::uint64_t{split} << 32, stream_hash("synthetic speech"));
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t least = std::max(o.frames / 2, 2 * o.stride);
    const std::int64_t frames = i == 0 ? o.frames : least + stream.below(narrow<std::uint32_t>(o.frames - least + 1));
    std::string text;
    for (std::int64_t c = 0; c < frames / (2 * o.stride); ++c) text += c % (kLetters + 1) == kLetters ? ' ' : static_cast<char>('a' + stream.below(26));
    if (text.ends_with(' ')) text.back() = 'a';
    const std::uint64_t seed = o.seed ^ (std::uint64_t{split} << 32 | static_cast<std::uint64_t>(i) << 33);
    out->add({frames, text, Sung{text, frames, o.bands, 2 * o.stride, seed}});
  }
  return out;
}

}  // namespace

SpeechSplits synthetic_speech(const SyntheticSpeechOptions& o) {
  if (o.frames < 2 * o.stride)
    throw UsageError(fmt::format("synthetic: utterances of {} frames; accepted: {} or more, two for each step of the model", o.frames, 2 * o.stride));
  const auto kept = [&](std::int64_t samples) { return o.limit > 0 ? std::min(samples, o.limit) : samples; };
  return {split_of(o, kept(o.samples), 0), split_of(o, kept(kValidationSamples), 1)};
}

}  // namespace gemel::datasets
