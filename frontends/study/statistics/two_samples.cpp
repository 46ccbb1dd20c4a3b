#include "frontends/study/statistics/two_samples.h"

#include <algorithm>
#include <bit>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "frontends/study/statistics/ranked_values.h"

namespace gemel::study {
namespace {

std::vector<double> joined(std::span<const double> a, std::span<const double> b) {
  std::vector<double> out(a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

/// Ways to choose k of n, or more than `most`.
std::int64_t choices(std::int64_t n, std::int64_t k, std::int64_t most) {
  double out = 1;
  for (std::int64_t i = 1; i <= k && out <= static_cast<double>(most); ++i) out = out * static_cast<double>(n - k + i) / static_cast<double>(i);
  return static_cast<std::int64_t>(std::llround(std::min(out, static_cast<double>(most) + 1)));
}

/// Splits whose statistic is at most, and at least, that of the samples; equal but for rounding counts on both sides.
class Tails {
 public:
  explicit Tails(double found) : found_(found), rounding_(1e-14 * std::abs(found)) {}
  void count(double statistic) {
    ++splits_;
    below_ += statistic <= found_ + rounding_;
    above_ += statistic >= found_ - rounding_;
  }
  /// @param own  the samples' own split, where it was not among those that were looked at
  double p(std::int64_t own) const { return std::min(1.0, 2 * static_cast<double>(std::min(below_, above_) + own) / static_cast<double>(splits_ + own)); }

 private:
  double found_, rounding_;
  std::int64_t splits_ = 0, below_ = 0, above_ = 0;
};

/// How many orders of two samples of n and m values without ties give each U, 0..n m, as shares of all.
std::vector<double> exact_u(std::size_t n, std::size_t m) {
  // Recursion by the largest value: it is of a, which then exceeds m of b, or of b. Here row by row of m, in place for growing n.
  std::vector<std::vector<double>> shares(n + 1, std::vector<double>{1});
  for (std::size_t k = 1; k <= m; ++k) {
    std::vector<std::vector<double>> next(n + 1);
    next[0] = {1};
    for (std::size_t i = 1; i <= n; ++i) {
      next[i].assign(i * k + 1, 0);
      const double of_a = static_cast<double>(i) / static_cast<double>(i + k);
      for (std::size_t u = 0; u < next[i - 1].size(); ++u) next[i][u + k] += of_a * next[i - 1][u];
      for (std::size_t u = 0; u < shares[i].size(); ++u) next[i][u] += (1 - of_a) * shares[i][u];
    }
    shares = std::move(next);
  }
  return shares[n];
}

}  // namespace

double difference_of_means(std::span<const double> a, std::span<const double> b) { return mean(a) - mean(b); }

TestResult permutation_test(std::span<const double> a, std::span<const double> b, const TwoSampleStatistic& statistic, const Permutations& options) {
  const double found = statistic(a, b);
  Tails tails(found);
  std::vector<double> all = joined(a, b);
  const auto n = std::ssize(all), k = std::ssize(a);
  const auto count = [&](const std::vector<double>& split) { tails.count(statistic(std::span(split).first(a.size()), std::span(split).subspan(a.size()))); };
  if (choices(n, k, options.most) > options.most) {
    std::mt19937_64 random(options.seed);
    for (std::int64_t i = 0; i < options.most; ++i) {
      std::ranges::shuffle(all, random);
      count(all);
    }
    return {found, tails.p(1)};
  }
  std::vector<char> is_of_a(all.size(), 0);
  std::fill_n(is_of_a.begin(), k, 1);
  std::vector<double> split(all.size());
  do {
    std::size_t in_a = 0, in_b = a.size();
    for (std::size_t i = 0; i < all.size(); ++i) split[is_of_a[i] ? in_a++ : in_b++] = all[i];
    count(split);
  } while (std::ranges::prev_permutation(is_of_a).found);
  return {found, tails.p(0)};
}

TestResult mann_whitney(std::span<const double> a, std::span<const double> b) {
  const Ranks ranks = ranks_of(joined(a, b));
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  const double u = std::accumulate(ranks.values.begin(), ranks.values.begin() + std::ssize(a), 0.0) - n * (n + 1) / 2, larger = std::max(u, n * m - u);
  if (std::min(a.size(), b.size()) <= 8 && ranks.tie_cubes == 0) {
    const std::vector<double> shares = exact_u(a.size(), b.size());
    const double tail = std::accumulate(shares.begin() + std::llround(larger), shares.end(), 0.0);
    return {u, std::min(1.0, 2 * tail)};
  }
  const double all = n + m, deviation = std::sqrt(n * m / 12 * (all + 1 - ranks.tie_cubes / (all * (all - 1))));
  if (deviation == 0) return {u, 1};
  return {u, std::min(1.0, 2 * cdf(complement(boost::math::normal(), (larger - n * m / 2 - 0.5) / deviation)))};
}

double cliffs_delta(std::span<const double> a, std::span<const double> b) {
  return 2 * mann_whitney(a, b).statistic / (static_cast<double>(a.size()) * static_cast<double>(b.size())) - 1;
}

MeanDifference welch(std::span<const double> a, std::span<const double> b) {
  if (a.size() < 2 || b.size() < 2) throw InternalError("welch: a sample has fewer than 2 values");
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  const double va = variance(a) / n, vb = variance(b) / m, sum = va + vb;
  return {mean(a) - mean(b), std::sqrt(sum), sum > 0 ? sum * sum / (va * va / (n - 1) + vb * vb / (m - 1)) : n + m - 2};
}

MeanDifference paired(std::span<const double> differences) {
  if (differences.size() < 2) throw InternalError("paired: there are fewer than 2 differences");
  const auto n = static_cast<double>(differences.size());
  return {mean(differences), std::sqrt(variance(differences) / n), n - 1};
}

TestResult sign_flip_test(std::span<const double> differences, const Permutations& options) {
  const double found = mean(differences);
  Tails tails(found);
  std::vector<double> flipped(differences.begin(), differences.end());
  const bool all = differences.size() < 62 && (std::int64_t{1} << differences.size()) <= options.most;
  const std::int64_t splits = all ? std::int64_t{1} << differences.size() : options.most;
  std::mt19937_64 random(options.seed);
  for (std::int64_t i = 0; i < splits; ++i) {
    for (std::size_t j = 0; j < flipped.size(); ++j) {
      const bool turns = all ? (i >> j & 1) != 0 : (random() & 1) != 0;
      flipped[j] = turns ? -differences[j] : differences[j];
    }
    tails.count(mean(flipped));
  }
  return {found, tails.p(all ? 0 : 1)};
}

double detectable_by_signs(int n, double level) {
  constexpr int kMostOfAll = 14, kSamples = 1000;  // the test looks at all signs up to so many; beyond them a t test sees as much
  if (n > kMostOfAll) return MeanDifference{0, 1 / std::sqrt(n), n - 1.0}.detectable(level);
  const std::size_t signs = std::size_t{1} << n;
  // p = 2 k / 2^n where k of all signs, among them those that are, give as large a mean. A shift d of normal z makes that at most k where all but k - 1 sets
  // of values have a mean above -d: z decides which shift it takes, and the samples which one is enough for 80 % of them.
  const auto most = static_cast<std::ptrdiff_t>(std::ceil(level * static_cast<double>(signs) / 2)) - 1;
  if (most < 1) return std::numeric_limits<double>::infinity();
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::vector<double> needed, sums(signs), means(signs - 1);
  for (int i = 0; i < kSamples; ++i) {
    for (int j = 0; j < n; ++j) {
      const double z = normal(random);
      const std::size_t half = std::size_t{1} << j;
      for (std::size_t set = 0; set < half; ++set) sums[half + set] = sums[set] + z;
    }
    for (std::size_t set = 1; set < signs; ++set) means[set - 1] = -sums[set] / std::popcount(set);
    std::ranges::nth_element(means, means.begin() + most - 1, std::greater());
    needed.push_back(means[static_cast<std::size_t>(most - 1)]);
  }
  return quantile(needed, 0.8);
}

Interval MeanDifference::interval(double level) const {
  const double half = boost::math::quantile(boost::math::students_t(degrees), 0.5 + level / 2) * standard_error;
  return {difference - half, difference + half};
}

double MeanDifference::detectable(double level) const {
  const boost::math::students_t t(degrees);
  return (boost::math::quantile(t, 1 - level / 2) + boost::math::quantile(t, 0.8)) * standard_error;
}

TestResult equivalence_test(const MeanDifference& d, double margin) {
  if (d.standard_error == 0) return {0, std::abs(d.difference) < margin ? 0.0 : 1.0};
  const boost::math::students_t t(d.degrees);
  const double above = (d.difference + margin) / d.standard_error, below = (d.difference - margin) / d.standard_error;
  const double p_above = cdf(complement(t, above)), p_below = cdf(t, below);
  return p_above > p_below ? TestResult{above, p_above} : TestResult{below, p_below};
}

}  // namespace gemel::study
