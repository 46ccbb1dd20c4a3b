// LogMel: log-mel features, the logarithm of a sound's energy in frequency bands, frame by frame.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "datasets/speech/fourier.h"

namespace gemel::datasets {

struct LogMelOptions {
  std::int64_t sample_rate = 16000;    // samples a second
  double window_ms = 25, hop_ms = 10;  // length of a frame, and distance between frames
  std::int64_t bands = 80;
  double floor = 1e-10;  // least energy before the logarithm
};

/// Frames are centred at 0, hop, 2 hop, ... and weighted by a Hann window; the sound is mirrored at its ends. The power spectrum, of the window's length, is
/// summed into triangular bands of height 1, equally spaced in mel = 2595 log10(1 + Hz / 700) from 0 to half the sample rate. The features are the natural
/// logarithm of the sums. For an even window and sample rate the result is log(max(torchaudio.transforms.MelSpectrogram(...), floor)), with defaults except for
/// n_fft, hop_length and n_mels. May be used from any thread.
/// Source: S. S. Stevens, J. Volkmann, E. B. Newman, 1937; HTK's formula (D. O'Shaughnessy, Speech communication, 1987)
class LogMel {
 public:
  /// @throws UsageError for a window or hop below one sample, a floor not above 0, or so many bands that one contains no frequency of the spectrum
  explicit LogMel(const LogMelOptions& options = {});

  std::int64_t bands() const { return static_cast<std::int64_t>(bands_.size()); }
  /// Returns the number of frames of a sound.
  /// @throws DataError if it has half a window of samples or less
  std::int64_t frames(std::int64_t samples) const;
  /// Computes the features [frames, bands].
  /// @param samples  -1..1, at the sample rate
  /// @throws DataError as frames()
  std::vector<float> operator()(std::span<const float> samples) const;

 private:
  struct Band {
    std::size_t first;           // of the spectrum, the first in the band
    std::vector<float> weights;  // of `first` and the frequencies after it
  };
  void take_frame(std::span<const float> samples, std::int64_t frame, std::vector<float>& into) const;
  void add_bands(std::span<const float> power, std::span<float> out) const;

  Fourier fourier_;
  std::int64_t hop_;
  float floor_;
  std::vector<float> window_;
  std::vector<Band> bands_;
};

}  // namespace gemel::datasets
