// Log-mel features and the transform under them, against torch.stft (tests/data/log_mel/make.py) and closed forms.
#include "datasets/speech/log_mel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "tests/support/message_of.h"
#include "tests/support/operators/expected_values.h"

namespace gemel::datasets {
namespace {

using testing::message_of;

std::vector<float> drawn(std::size_t n, std::uint64_t seed) {
  PhiloxStream stream(seed, 0);
  std::vector<float> out(n);
  for (float& x : out) x = 2 * unit_float(stream.next()) - 1;
  return out;
}

TEST(Fourier, is_its_definition_for_lengths_of_any_factors) {
  for (const std::size_t n : {1u, 2u, 3u, 4u, 7u, 12u, 60u, 121u, 200u, 257u, 400u, 512u}) {
    ComplexArray x(n), scratch(n);
    x.re = drawn(n, 1);
    x.im = drawn(n, 2);
    const ComplexArray given = x;
    Fourier(n).transform(x, scratch);
    for (std::size_t k = 0; k < n; ++k) {
      double re = 0, im = 0;
      for (std::size_t j = 0; j < n; ++j) {
        const double angle = -2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
        re += given.re[j] * std::cos(angle) - given.im[j] * std::sin(angle);
        im += given.re[j] * std::sin(angle) + given.im[j] * std::cos(angle);
      }
      // Results are of the size of sqrt(n); roundings of each stage, of 257 terms in the largest.
      const double allowed = 2e-6 * std::sqrt(static_cast<double>(n));
      EXPECT_NEAR(x.re[k], re, allowed) << n << ", " << k;
      EXPECT_NEAR(x.im[k], im, allowed) << n << ", " << k;
    }
  }
  EXPECT_EQ(message_of<UsageError>([] { Fourier(0); }), "Fourier: a length of 0; accepted: 1 or more");
}

struct Case {
  const char* name;
  LogMelOptions options;
};

TEST(LogMel, gives_torchs_features) {
  const testing::Expected expected("log_mel/expected.safetensors");
  for (const Case& c : {Case{"chirp", {}}, Case{"short", {}}, Case{"silence", {}}, Case{"slow", {.sample_rate = 8000, .bands = 40}},
                        Case{"odd", {.sample_rate = 11025, .window_ms = 275 / 11.025, .bands = 40}}}) {
    const std::vector<double> numbers = expected.numbers(std::string(c.name) + ".sound"), features = expected.numbers(std::string(c.name) + ".features");
    const LogMel mel(c.options);
    const auto frames = static_cast<std::size_t>(mel.frames(static_cast<std::int64_t>(numbers.size()))), bands = static_cast<std::size_t>(mel.bands());
    const std::vector<float> got = mel(std::vector<float>(numbers.begin(), numbers.end()));
    ASSERT_EQ(got.size(), features.size()) << c.name;
    ASSERT_EQ(frames * bands, features.size()) << c.name;
    for (std::size_t f = 0; f < frames; ++f) {
      double loudest = 0;
      for (std::size_t b = 0; b < bands; ++b) loudest = std::max(loudest, std::exp(features[f * bands + b]));
      for (std::size_t b = 0; b < bands; ++b) {
        const double e = std::exp(features[f * bands + b]);
        // A spectrum's rounding is a few 1e-7 of its largest number, whatever the one it is in: of an energy twice that, and of both's mean.
        EXPECT_NEAR(got[f * bands + b], features[f * bands + b], 1e-6 + 1e-6 * std::sqrt(loudest / e)) << c.name << ", frame " << f << ", band " << b;
      }
    }
  }
}

TEST(LogMel, a_tone_is_loudest_in_its_band) {
  constexpr double kHz = 1000;
  std::vector<float> tone(8000);
  for (std::size_t i = 0; i < tone.size(); ++i) tone[i] = static_cast<float>(std::sin(2 * std::numbers::pi * kHz * static_cast<double>(i) / 16000));
  const LogMel mel;
  const std::vector<float> features = mel(tone);
  const auto mel_of = [](double hz) { return 2595 * std::log10(1 + hz / 700); };
  const auto band = static_cast<std::size_t>(std::lround(mel_of(kHz) / (mel_of(8000) / 81))) - 1;
  for (std::size_t f = 2; f < 48; ++f) {
    const auto begin = features.begin() + static_cast<std::ptrdiff_t>(f * 80);
    EXPECT_EQ(static_cast<std::size_t>(std::max_element(begin, begin + 80) - begin), band) << f;
  }
}

TEST(LogMel, frames_follow_the_hop) {
  const LogMel mel;
  EXPECT_EQ(mel.bands(), 80);
  EXPECT_EQ(mel.frames(201), 2);
  EXPECT_EQ(mel.frames(319), 2);
  EXPECT_EQ(mel.frames(320), 3);
  EXPECT_EQ(mel.frames(16000), 101);
  EXPECT_EQ(LogMel({.sample_rate = 11025, .window_ms = 275 / 11.025, .bands = 40}).frames(1100), 10);  // of odd length: the last is not whole
}

TEST(LogMel, says_what_does_not_fit) {
  EXPECT_EQ(message_of<DataError>([] { LogMel().frames(200); }), "log_mel: 200 samples of sound; accepted: more than 200, half a window");
  EXPECT_EQ(message_of<DataError>([] { LogMel()({}); }), "log_mel: 0 samples of sound; accepted: more than 200, half a window");
  EXPECT_EQ(message_of<UsageError>([] { LogMel({.window_ms = 0.01}); }),
            "log_mel: a window of 0.01 ms at 16000 samples a second; accepted: 1 to 1048576 samples");
  EXPECT_EQ(message_of<UsageError>([] { LogMel({.hop_ms = -1}); }), "log_mel: a hop of -1 ms at 16000 samples a second; accepted: 1 to 1048576 samples");
  EXPECT_EQ(message_of<UsageError>([] { LogMel({.bands = 0}); }), "log_mel: 0 bands; accepted: 1 or more");
  EXPECT_EQ(message_of<UsageError>([] { LogMel({.floor = 0}); }), "log_mel: a floor of 0; accepted: above 0");
  EXPECT_EQ(message_of<UsageError>([] { LogMel({.bands = 200}); }),
            "log_mel: 200 bands are too many for a window of 400 samples: none of its frequencies lies in band 0, 0.0..17.8 Hz; "
            "accepted: fewer, or a longer window");
}

}  // namespace
}  // namespace gemel::datasets
