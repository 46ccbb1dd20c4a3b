#include "frontends/study/statistics/bootstrap.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <random>

#include "engine/base/error.h"

namespace gemel::study {
namespace {

const boost::math::normal kNormal;

/// The statistic of samples of the same sizes, drawn from these with replacement; sorted.
std::vector<double> resampled(const Samples& samples, const std::function<double(const Samples&)>& statistic, const Bootstrap& options) {
  std::mt19937_64 random(options.seed);
  Samples drawn = samples;
  std::vector<double> out(static_cast<std::size_t>(options.resamples));
  for (double& value : out) {
    for (std::size_t s = 0; s < samples.size(); ++s) {
      std::uniform_int_distribution<std::size_t> index(0, samples[s].size() - 1);
      for (double& x : drawn[s]) x = samples[s][index(random)];
    }
    value = statistic(drawn);
  }
  std::ranges::sort(out);
  return out;
}

/// A sixth of the skewness of the statistic's influence, from samples that lack one value each.
double acceleration(const Samples& samples, const std::function<double(const Samples&)>& statistic) {
  double cubes = 0, squares = 0;
  for (std::size_t s = 0; s < samples.size(); ++s) {
    const auto n = static_cast<double>(samples[s].size());
    std::vector<double> without;
    for (std::size_t i = 0; i < samples[s].size(); ++i) {
      Samples rest = samples;
      rest[s].erase(rest[s].begin() + static_cast<std::ptrdiff_t>(i));
      without.push_back(statistic(rest));
    }
    const double middle = mean(without);
    for (const double x : without) {
      const double influence = (n - 1) * (middle - x) / n;
      squares += influence * influence;
      cubes += influence * influence * influence;
    }
  }
  return squares > 0 ? cubes / (6 * std::pow(squares, 1.5)) : 0;
}

}  // namespace

Interval bootstrap_interval(const Samples& samples, const std::function<double(const Samples&)>& statistic, const Bootstrap& options) {
  for (const auto& sample : samples)
    if (sample.size() < 2) throw InternalError("bootstrap: a sample has fewer than 2 values");
  const double found = statistic(samples), tail = (1 - options.level) / 2;
  const std::vector<double> all = resampled(samples, statistic, options);
  const auto [first, last] = std::ranges::equal_range(all, found);
  const double n = static_cast<double>(all.size());
  const double below = (static_cast<double>(first - all.begin()) + static_cast<double>(last - all.begin())) / (2 * n);
  if (below <= 0 || below >= 1) return {all.front(), all.back()};  // the statistic lies at the end of all that resampling gives
  const double bias = quantile(kNormal, below), a = acceleration(samples, statistic);
  const auto end = [&](double p) {
    const double z = bias + quantile(kNormal, p);
    return study::quantile(all, cdf(kNormal, bias + z / (1 - a * z)));
  };
  return {end(tail), end(1 - tail)};
}

Interval percentile_interval(const Samples& samples, const std::function<double(const Samples&)>& statistic, const Bootstrap& options) {
  const std::vector<double> all = resampled(samples, statistic, options);
  const auto left_out = static_cast<std::size_t>((1 - options.level) / 2 * static_cast<double>(all.size()));  // on each side
  return {all[left_out], all[all.size() - 1 - left_out]};
}

Interval median_interval(std::span<const double> sample, const Bootstrap& options) {
  return bootstrap_interval(
      {{sample.begin(), sample.end()}}, [](const Samples& s) { return median(s[0]); }, options);
}

Interval ratio_interval(std::span<const double> a, std::span<const double> b, const Bootstrap& options) {
  return bootstrap_interval(
      {{a.begin(), a.end()}, {b.begin(), b.end()}}, [](const Samples& s) { return median(s[0]) / median(s[1]); }, options);
}

}  // namespace gemel::study
