// A WAV file as Gemel reads it, for comparison with other readers.
//   gemel_sound SOUND.wav SAMPLES.npy [FEATURES.npy]
// Samples are float32 [N], of one channel; features its log-mel energies at 16 000 samples a second, float32 [frames, 80].
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "datasets/formats/npy.h"
#include "datasets/formats/wav.h"
#include "datasets/speech/log_mel.h"
#include "engine/base/error.h"
#include "engine/base/spec.h"

int main(int count, char** arguments) {
  using namespace gemel;
  if (count < 3 || count > 4) {
    fmt::print(stderr, "gemel_sound: {} files; accepted: SOUND.wav SAMPLES.npy [FEATURES.npy]\n", count - 1);
    return 2;
  }
  try {
    const datasets::Sound sound = datasets::read_wav(arguments[1]);
    datasets::write_npy(arguments[2], f32({std::ssize(sound.samples)}), std::as_bytes(std::span(sound.samples)));
    if (count < 4) return 0;
    const datasets::LogMel log_mel;
    const std::vector<float> features = log_mel(sound.samples);
    datasets::write_npy(arguments[3], f32({std::ssize(features) / log_mel.bands(), log_mel.bands()}), std::as_bytes(std::span(features)));
    return 0;
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
