#include "frontends/study/statistics/averages.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "engine/base/error.h"

namespace gemel::study {
namespace {

double count(std::span<const double> sample) {
  if (sample.empty()) throw InternalError("statistics: a sample is empty");
  return static_cast<double>(sample.size());
}

template <class Of>
double mean_of(std::span<const double> sample, Of of) {
  const double n = count(sample);
  return std::transform_reduce(sample.begin(), sample.end(), 0.0, std::plus<>(), of) / n;
}

}  // namespace

double mean(std::span<const double> sample) {
  return mean_of(sample, [](double x) { return x; });
}

double variance(std::span<const double> sample) {
  if (sample.size() < 2) return 0;
  const double m = mean(sample), n = count(sample);
  return mean_of(sample, [m](double x) { return (x - m) * (x - m); }) * n / (n - 1);
}

double median(std::span<const double> sample) { return quantile(sample, 0.5); }

double quantile(std::span<const double> sample, double q) {
  const double position = q * (count(sample) - 1);
  std::vector<double> sorted(sample.begin(), sample.end());
  std::ranges::sort(sorted);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - std::floor(position));
}

Interval range(std::span<const double> sample) {
  count(sample);
  const auto [low, high] = std::ranges::minmax(sample);
  return {low, high};
}

double geometric_mean(std::span<const double> sample) {
  return std::exp(mean_of(sample, [](double x) { return std::log(x); }));
}

}  // namespace gemel::study
