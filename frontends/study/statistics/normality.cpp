#include "frontends/study/statistics/normality.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <numbers>
#include <vector>

#include "engine/base/error.h"

namespace gemel::study {
namespace {

double polynomial(std::initializer_list<double> coefficients, double x) {
  double out = 0;
  for (auto c = std::rbegin(coefficients); c != std::rend(coefficients); ++c) out = out * x + *c;
  return out;
}

/// Weights of the ordered values, which are antisymmetric: the expected ones of a normal sample, the outermost two corrected.
std::vector<double> weights_of(std::size_t n) {
  std::vector<double> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = boost::math::quantile(boost::math::normal(), (static_cast<double>(i) + 0.625) / (static_cast<double>(n) + 0.25));
  double squares = 0;
  for (const double m : out) squares += m * m;
  if (n == 3) return {-std::sqrt(0.5), 0, std::sqrt(0.5)};
  const double u = 1 / std::sqrt(static_cast<double>(n)), norm = std::sqrt(squares);
  const std::size_t corrected = n > 5 ? 2 : 1;
  const std::vector<double> outer{polynomial({out[n - 1] / norm, 0.221157, -0.147981, -2.071190, 4.434685, -2.706056}, u),
                                  polynomial({out[n - 2] / norm, 0.042981, -0.293762, -1.752461, 5.682633, -3.582633}, u)};
  double rest = squares, left = 1;
  for (std::size_t i = 0; i < corrected; ++i) {
    rest -= 2 * out[n - 1 - i] * out[n - 1 - i];
    left -= 2 * outer[i] * outer[i];
  }
  for (double& m : out) m /= std::sqrt(rest / left);
  for (std::size_t i = 0; i < corrected; ++i) {
    out[n - 1 - i] = outer[i];
    out[i] = -outer[i];
  }
  return out;
}

double p_of(double w, std::size_t n) {
  const auto size = static_cast<double>(n);
  if (n == 3) return std::max(0.0, 6 / std::numbers::pi * (std::asin(std::sqrt(w)) - std::asin(std::sqrt(0.75))));
  const double distance = std::log1p(-w);
  double z = 0;
  if (n <= 11) {
    const double gamma = -2.273 + 0.459 * size;
    if (distance >= gamma) return 0;
    z = (-std::log(gamma - distance) - polynomial({0.5440, -0.39978, 0.025054, -6.714e-4}, size)) /
        std::exp(polynomial({1.3822, -0.77857, 0.062767, -0.0020322}, size));
  } else {
    const double x = std::log(size);
    z = (distance - polynomial({-1.5861, -0.31082, -0.083751, 0.0038915}, x)) / std::exp(polynomial({-0.4803, -0.082676, 0.0030302}, x));
  }
  return cdf(complement(boost::math::normal(), z));
}

}  // namespace

TestResult shapiro_wilk(std::span<const double> sample) {
  if (sample.size() < 3 || sample.size() > 5000) throw InternalError("shapiro_wilk: the sample has not 3 to 5000 values");
  std::vector<double> sorted(sample.begin(), sample.end());
  std::ranges::sort(sorted);
  if (sorted.front() == sorted.back()) throw InternalError("shapiro_wilk: all values are equal");
  const std::vector<double> weights = weights_of(sorted.size());
  const double middle = mean(sorted);
  double product = 0, squares = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    product += weights[i] * (sorted[i] - middle);
    squares += (sorted[i] - middle) * (sorted[i] - middle);
  }
  const double w = std::min(1.0, product * product / squares);
  return {w, w == 1 ? 1.0 : p_of(w, sorted.size())};
}

}  // namespace gemel::study
