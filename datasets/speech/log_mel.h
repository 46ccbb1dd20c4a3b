// Log-mel features: how loud sound is in each of some bands of pitch, frame by frame.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "datasets/speech/fourier.h"

namespace gemel::datasets {

struct LogMelOptions {
  std::int64_t sample_rate = 16000;    // samples a second
  double window_ms = 25, hop_ms = 10;  // length of a frame, and from each to the next
  std::int64_t bands = 80;
  double floor = 1e-10;  // least energy before the logarithm
};

/// Frames are centred at 0, hop, 2 hop, ... and weighted by a Hann window; sound is mirrored about its ends. The power spectrum, as long as the
/// window, is summed into triangular bands, equally far apart in mel = 2595 log10(1 + Hz / 700) from 0 to half the sample rate, of height 1;
/// then the natural logarithm. For an even window and rate that is log(max(torchaudio.transforms.MelSpectrogram(...), floor)) with its defaults
/// but n_fft, hop_length and n_mels. Readable from any thread.
/// Source: S. S. Stevens, J. Volkmann, E. B. Newman, 1937; HTK's formula (D. O'Shaughnessy, Speech communication, 1987)
class LogMel {
 public:
  /// @throws UsageError for a window or hop below one sample, a floor that is not above 0, or so many bands that one lies between two frequencies
  explicit LogMel(const LogMelOptions& options = {});

  std::int64_t bands() const { return static_cast<std::int64_t>(bands_.size()); }
  /// Frames of so many samples. @throws DataError for half a window of them or less
  std::int64_t frames(std::int64_t samples) const;
  /// [frames, bands]. @param samples  -1..1, at the sample rate  @throws DataError as frames()
  std::vector<float> operator()(std::span<const float> samples) const;

 private:
  struct Band {
    std::size_t first;           // frequency
    std::vector<float> weights;  // of it and those that follow
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
