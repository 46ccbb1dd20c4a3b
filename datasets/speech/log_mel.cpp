#include "datasets/speech/log_mel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel::datasets {
namespace {

/// Whole samples of a time. @throws UsageError where there is none
std::int64_t samples_of(const char* what, double ms, std::int64_t sample_rate) {
  const double samples = std::round(ms * static_cast<double>(sample_rate) / 1000);
  if (!(samples >= 1 && samples <= 1 << 20))
    throw UsageError(fmt::format("log_mel: a {} of {} ms at {} samples a second; accepted: 1 to {} samples", what, ms, sample_rate, 1 << 20));
  return static_cast<std::int64_t>(samples);
}

double hertz(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

}  // namespace

LogMel::LogMel(const LogMelOptions& o)
    : fourier_(at(samples_of("window", o.window_ms, o.sample_rate))), hop_(samples_of("hop", o.hop_ms, o.sample_rate)), floor_(static_cast<float>(o.floor)) {
  if (!(floor_ > 0)) throw UsageError(fmt::format("log_mel: a floor of {}; accepted: above 0", o.floor));
  if (o.bands < 1) throw UsageError(fmt::format("log_mel: {} bands; accepted: 1 or more", o.bands));
  const auto size = static_cast<double>(fourier_.size()), rate = static_cast<double>(o.sample_rate);
  for (std::size_t i = 0; i < fourier_.size(); ++i)
    window_.push_back(static_cast<float>(0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / size)));
  const double top = 2595 * std::log10(1 + rate / 2 / 700), step = top / static_cast<double>(o.bands + 1);
  for (std::int64_t b = 0; b < o.bands; ++b) {
    const double low = hertz(step * static_cast<double>(b)), middle = hertz(step * static_cast<double>(b + 1)), high = hertz(step * static_cast<double>(b + 2));
    Band band{0, {}};
    for (std::size_t k = 0; k <= fourier_.size() / 2; ++k) {
      const double f = static_cast<double>(k) * rate / size, weight = std::min((f - low) / (middle - low), (high - f) / (high - middle));
      if (weight <= 0) continue;
      if (band.weights.empty()) band.first = k;
      band.weights.push_back(static_cast<float>(weight));
    }
    if (band.weights.empty())
      throw UsageError(
          fmt::format("log_mel: {} bands are too many for a window of {} samples: none of its frequencies lies in band {}, {:.1f}..{:.1f} Hz; "
                      "accepted: fewer, or a longer window",
                      o.bands, fourier_.size(), b, low, high));
    bands_.push_back(std::move(band));
  }
}

std::int64_t LogMel::frames(std::int64_t samples) const {
  const auto window = static_cast<std::int64_t>(fourier_.size()), margin = window / 2;
  if (samples <= margin) throw DataError(fmt::format("log_mel: {} samples of sound; accepted: more than {}, half a window", samples, margin));
  return 1 + (samples + 2 * margin - window) / hop_;
}

/// Weighted, mirrored about the ends of the sound.
void LogMel::take_frame(std::span<const float> samples, std::int64_t frame, std::vector<float>& into) const {
  const auto count = static_cast<std::int64_t>(samples.size()), begin = frame * hop_ - static_cast<std::int64_t>(window_.size() / 2);
  for (std::size_t i = 0; i < window_.size(); ++i) {
    std::int64_t from = std::abs(begin + static_cast<std::int64_t>(i));
    if (from >= count) from = 2 * (count - 1) - from;
    into[i] = window_[i] * samples[at(from)];
  }
}

void LogMel::add_bands(std::span<const float> power, std::span<float> out) const {
  for (std::size_t b = 0; b < bands_.size(); ++b) {
    float energy = 0;
    for (std::size_t i = 0; i < bands_[b].weights.size(); ++i) energy += bands_[b].weights[i] * power[bands_[b].first + i];
    out[b] = std::log(std::max(energy, floor_));
  }
}

std::vector<float> LogMel::operator()(std::span<const float> samples) const {
  const auto count = at(frames(static_cast<std::int64_t>(samples.size())));
  const std::size_t n = fourier_.size(), width = bands_.size();
  std::vector<float> out(count * width), power(n / 2 + 1), second(n / 2 + 1);
  ComplexArray x(n), scratch(n);
  // Two frames at a time, one as the real parts and one as the imaginary: the spectrum of each is the half of the sum's that its symmetry tells.
  for (std::size_t f = 0; f < count; f += 2) {
    take_frame(samples, static_cast<std::int64_t>(f), x.re);
    if (f + 1 < count)
      take_frame(samples, static_cast<std::int64_t>(f + 1), x.im);
    else
      std::ranges::fill(x.im, 0.0f);
    fourier_.transform(x, scratch);
    for (std::size_t k = 0; k <= n / 2; ++k) {
      const std::size_t mirrored = k ? n - k : 0;
      const float a = x.re[k] + x.re[mirrored], b = x.im[k] - x.im[mirrored], c = x.im[k] + x.im[mirrored], d = x.re[mirrored] - x.re[k];
      power[k] = (a * a + b * b) / 4;
      second[k] = (c * c + d * d) / 4;
    }
    add_bands(power, std::span(out).subspan(f * width, width));
    if (f + 1 < count) add_bands(second, std::span(out).subspan((f + 1) * width, width));
  }
  return out;
}

}  // namespace gemel::datasets
