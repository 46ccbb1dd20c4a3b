#include "frontends/study/statistics/several_samples.h"

#include <algorithm>
#include <boost/math/distributions/fisher_f.hpp>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/error.h"
#include "frontends/study/statistics/ranked_values.h"

namespace gemel::study {
namespace {

/// The share of orders of n different values with at most so many inversions, and with at least all less so many: both tails.
double exact_kendall(std::size_t n, std::size_t inversions) {
  std::vector<double> shares{1};  // [inversions], of the first values
  for (std::size_t k = 2; k <= n; ++k) {
    std::vector<double> next(shares.size() + k - 1, 0);
    for (std::size_t i = 0; i < shares.size(); ++i)
      for (std::size_t j = 0; j < k; ++j) next[i + j] += shares[i] / static_cast<double>(k);
    shares = std::move(next);
  }
  const std::size_t few = std::min(inversions, shares.size() - 1 - inversions);
  return std::min(1.0, 2 * std::accumulate(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(few) + 1, 0.0));
}

/// Sums over groups of t equal values: of t (t - 1), t (t - 1) (t - 2) and t (t - 1) (2 t + 5).
struct Ties {
  double pairs = 0, triples = 0, weighted = 0;
  explicit Ties(std::span<const double> values) {
    std::vector<double> sorted(values.begin(), values.end());
    std::ranges::sort(sorted);
    for (auto first = sorted.begin(); first != sorted.end();) {
      const auto last = std::upper_bound(first, sorted.end(), *first);
      const auto t = static_cast<double>(last - first);
      pairs += t * (t - 1);
      triples += t * (t - 1) * (t - 2);
      weighted += t * (t - 1) * (2 * t + 5);
      first = last;
    }
  }
};

}  // namespace

AnalysisOfVariance analysis_of_variance(const Samples& samples) {
  std::vector<double> all;
  for (const auto& sample : samples) all.insert(all.end(), sample.begin(), sample.end());
  if (samples.size() < 2 || all.size() <= samples.size()) throw InternalError("analysis of variance: there are too few values");
  const double middle = mean(all);
  double between = 0, within = 0;
  for (const auto& sample : samples) {
    const double m = mean(sample);
    between += static_cast<double>(sample.size()) * (m - middle) * (m - middle);
    for (const double x : sample) within += (x - m) * (x - m);
  }
  AnalysisOfVariance out{.between = static_cast<double>(samples.size() - 1), .within = static_cast<double>(all.size() - samples.size())};
  if (between + within == 0) return out;
  out.eta_squared = between / (between + within);
  out.f = within > 0 ? between / out.between / (within / out.within) : std::numeric_limits<double>::infinity();
  out.p = within > 0 ? cdf(complement(boost::math::fisher_f(out.between, out.within), out.f)) : 0;
  return out;
}

TestResult trend_test(std::span<const double> x, std::span<const double> y) {
  if (x.size() != y.size() || x.size() < 2) throw InternalError("trend: pairs of values are missing");
  const auto n = static_cast<double>(x.size());
  double score = 0;  // concordant pairs less discordant ones
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) score += ((x[i] > x[j]) - (x[i] < x[j])) * ((y[i] > y[j]) - (y[i] < y[j]));
  const Ties of_x(x), of_y(y);
  const double pairs = n * (n - 1), scale = std::sqrt((pairs - of_x.pairs) * (pairs - of_y.pairs)) / 2;
  if (scale == 0) return {0, 1};
  const double tau = std::clamp(score / scale, -1.0, 1.0);
  if (of_x.pairs == 0 && of_y.pairs == 0 && x.size() <= 33)
    return {tau, exact_kendall(x.size(), static_cast<std::size_t>(std::llround((pairs / 2 - score) / 2)))};
  const double independent = (pairs * (2 * n + 5) - of_x.weighted - of_y.weighted) / 18;
  const double of_triples = n > 2 ? of_x.triples * of_y.triples / (9 * pairs * (n - 2)) : 0;
  const double deviation = std::sqrt(independent + of_triples + of_x.pairs * of_y.pairs / (2 * pairs));
  return {tau, std::min(1.0, 2 * cdf(complement(boost::math::normal(), std::abs(score) / deviation)))};
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<std::vector<double>> alone;
  for (const double one : p) alone.push_back({one});
  std::vector<double> out;
  for (const auto& group : holm_of_groups(alone)) out.push_back(group[0]);
  return out;
}

std::vector<std::vector<double>> holm_of_groups(const std::vector<std::vector<double>>& groups) {
  struct Place {
    std::size_t group, test;
  };
  std::vector<Place> order;
  std::vector<std::size_t> left;  // tests of each group that are not rejected yet
  for (std::size_t g = 0; g < groups.size(); ++g) {
    left.push_back(groups[g].size());
    for (std::size_t t = 0; t < groups[g].size(); ++t) order.push_back({g, t});
  }
  std::ranges::stable_sort(order, {}, [&](const Place& at) { return groups[at.group][at.test]; });
  std::vector<std::vector<double>> out = groups;
  double largest = 0;
  for (const auto& [g, t] : order) {
    const auto true_at_most = static_cast<double>(std::ranges::count_if(left, [](std::size_t n) { return n > 0; }));
    largest = std::max(largest, std::min(1.0, groups[g][t] * true_at_most));
    out[g][t] = largest;
    --left[g];
  }
  return out;
}

}  // namespace gemel::study
