// Tests over more than two samples, and corrections for more than one test.
#pragma once
#include <span>
#include <vector>

#include "frontends/study/statistics/bootstrap.h"
#include "frontends/study/statistics/two_samples.h"

namespace gemel::study {

struct AnalysisOfVariance {
  double f = 0, p = 1;
  double between = 0, within = 0;  // degrees of freedom
  double eta_squared = 0;          // share of the variance that lies between the samples
};

/// Whether the means of several samples are equal, one factor. @param samples  2 or more, with more values than samples in all
/// Source: R. A. Fisher, Statistical methods for research workers, 1925
AnalysisOfVariance analysis_of_variance(const Samples& samples);

/// Whether y rises or falls with x: Kendall's tau-b, two-sided. Exact without ties up to 33 pairs, else by the normal distribution. statistic: tau, -1..1.
/// Source: M. G. Kendall, Rank correlation methods, 1970
TestResult trend_test(std::span<const double> x, std::span<const double> y);

/// p values of a family of tests, each adjusted so that the chance of one false finding in all stays below the level.
/// Source: S. Holm, A simple sequentially rejective multiple test procedure, 1979
std::vector<double> holm(std::span<const double> p);
/// The same of groups of tests where at most one null hypothesis of each group can be true, such as "no difference" and "a difference of 5 % or more": a p
/// counts as often as there are groups that still have one. Source: J. P. Shaffer, Modified sequentially rejective multiple test procedures, 1986
std::vector<std::vector<double>> holm_of_groups(const std::vector<std::vector<double>>& groups);

}  // namespace gemel::study
