// Tests of whether two independent samples differ, and by how much.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "frontends/study/statistics/averages.h"

namespace gemel::study {

struct TestResult {
  double statistic = 0, p = 1;
};

/// Below so many splits of both samples together all are looked at, else as many at random.
struct Permutations {
  std::int64_t most = 20'000;
  std::uint64_t seed = 1;
};
using TwoSampleStatistic = std::function<double(std::span<const double> a, std::span<const double> b)>;

/// Two-sided: twice the smaller share of the splits whose statistic lies as far out on one side.
/// Source: R. A. Fisher, The design of experiments, 1935; with random splits B. Phipson, G. Smyth, Permutation p-values should never be zero, 2010
TestResult permutation_test(std::span<const double> a, std::span<const double> b, const TwoSampleStatistic& statistic, const Permutations& options = {});
double difference_of_means(std::span<const double> a, std::span<const double> b);

/// Two-sided; statistic U of a. Exact where one sample has at most 8 values and none are equal, else by the normal distribution with corrections for ties
/// and continuity. Source: H. B. Mann, D. R. Whitney, On a test of whether one of two random variables is stochastically larger than the other, 1947
TestResult mann_whitney(std::span<const double> a, std::span<const double> b);
/// Cliff's delta, -1..1: how much more often a value of a is larger than one of b, than smaller.
double cliffs_delta(std::span<const double> a, std::span<const double> b);

/// A difference of two means, as far as it is known.
struct MeanDifference {
  double difference = 0, standard_error = 0, degrees = 1;
  /// Two-sided confidence interval.
  Interval interval(double level = 0.95) const;
  /// The difference that a two-sided test at this level finds in 80 % of such experiments.
  double detectable(double level = 0.05) const;
};
/// The mean of a less that of b, where the variances may differ. @param a, b  2 values or more each
/// Source: B. L. Welch, The generalization of Student's problem when several different population variances are involved, 1947
MeanDifference welch(std::span<const double> a, std::span<const double> b);
/// The mean of differences, one for each block, in which both were measured one after the other. @param differences  2 or more
MeanDifference paired(std::span<const double> differences);
/// Whether the mean of such differences is 0: the signs are as likely either way where it is. Two-sided, exact where 2^n is at most `most`.
TestResult sign_flip_test(std::span<const double> differences, const Permutations& options = {});
/// The mean, in standard deviations, that sign flips find with p below the level in 80 % of samples of so many differences, where these are normal.
/// Infinite where no sample has such a p. @param n  2 or more
double detectable_by_signs(int n, double level);

/// Two one-sided tests of whether means differ by less than the margin. p of that they do not.
/// Source: D. Schuirmann, A comparison of the two one-sided tests procedure and the power approach, 1987
TestResult equivalence_test(const MeanDifference& d, double margin);

}  // namespace gemel::study
