#include "frontends/study/statistics/correlation.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "engine/base/error.h"

namespace gemel::study {
namespace {

double normal_quantile(double p) { return quantile(boost::math::normal(), p); }

std::vector<double> centred(std::span<const double> values) {
  std::vector<double> out(values.begin(), values.end());
  const double middle = mean(values);
  for (double& v : out) v -= middle;
  return out;
}

double product(std::span<const double> x, std::span<const double> y) { return std::inner_product(x.begin(), x.end(), y.begin(), 0.0); }

/// Of values whose means are 0: r is their product over the root of their squares, which no pairing changes.
double share_as_far(const std::vector<double>& x, std::vector<double> y, const Permutations& options) {
  const double found = std::abs(product(x, y)) * (1 - 1e-14);  // equal but for rounding counts
  std::int64_t pairings = 1;
  for (std::size_t n = 2; n <= y.size() && pairings <= options.most; ++n) pairings *= static_cast<std::int64_t>(n);
  std::int64_t as_far = 0;
  if (pairings <= options.most) {
    // Places, not values, so that equal ones are told apart and every pairing counts once.
    std::vector<std::size_t> places(y.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    do {
      double sum = 0;
      for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[places[i]];
      as_far += std::abs(sum) >= found;
    } while (std::ranges::next_permutation(places).found);
    return static_cast<double>(as_far) / static_cast<double>(pairings);
  }
  std::mt19937_64 random(options.seed);
  for (std::int64_t i = 0; i < options.most; ++i) {
    std::ranges::shuffle(y, random);
    as_far += std::abs(product(x, y)) >= found;
  }
  return static_cast<double>(as_far + 1) / static_cast<double>(options.most + 1);
}

}  // namespace

Correlation correlation(std::span<const double> x, std::span<const double> y, const Permutations& options) {
  if (x.size() != y.size() || x.size() < 4) throw InternalError("correlation: there are fewer than 4 pairs");
  const std::vector<double> cx = centred(x), cy = centred(y);
  const double xx = product(cx, cx), yy = product(cy, cy), xy = product(cx, cy);
  if (xx == 0 || yy == 0) return {.interval = {-1, 1}};
  Correlation out{.r = std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0), .slope = xy / xx, .p = share_as_far(cx, cy, options)};
  const double z = std::atanh(out.r), half = normal_quantile(0.975) / std::sqrt(static_cast<double>(x.size()) - 3);
  out.interval = {std::tanh(z - half), std::tanh(z + half)};
  return out;
}

double detectable_correlation(int n, double level) {
  return std::tanh((normal_quantile(1 - level / 2) + normal_quantile(0.8)) / std::sqrt(static_cast<double>(n) - 3));
}

}  // namespace gemel::study
